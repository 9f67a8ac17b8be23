#include "train/fit.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/forwarding_backend.h"
#include "backend/reference/reference_backend.h"
#include "config/user_error.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

constexpr int64_t kParameters = 125'262'336;  // of 12 layers, width 768, vocabulary 50257 padded for one rank

Settings small() {
  Settings settings;
  settings.model.vocab_size = 50257;
  return settings;
}

std::string answer(const Settings& settings, const Resources& there) {
  return user_error_of([&] { require_fit(settings, there); });
}

TEST(FitTest, StateOfAParameter) {
  Settings settings = small();
  EXPECT_EQ(state_bytes(settings, 1).training, 2 + 4 + 12);
  EXPECT_EQ(state_bytes(settings, 10).checkpoint_copy, 10 * 12);
  settings.exp_manager.create_checkpoint_callback = false;
  EXPECT_EQ(state_bytes(settings, 10).checkpoint_copy, 0);
  settings.trainer.precision = Precision::f32;  // the weights are their own masters
  EXPECT_EQ(state_bytes(settings, 1).training, 4 + 12);
}

TEST(FitTest, MemoryIsComparedToTheByte) {
  const int64_t training = kParameters * 18, all = kParameters * 30;
  EXPECT_EQ(answer(small(), {.ranks = 1, .memory = all}), "");
  EXPECT_EQ(answer(small(), {.ranks = 1, .memory = 0}), "");  // not known
  EXPECT_EQ(
      answer(small(), {.ranks = 1, .memory = all - 1}),
      "weights, gradients and optimizer state take 2.1 GiB and the copy that checkpoints are saved from 1.4 GiB, and 3.5 GiB "
      "of memory are free here; use exp_manager.create_checkpoint_callback=false");
  Settings without_checkpoints = small();
  without_checkpoints.exp_manager.create_checkpoint_callback = false;
  EXPECT_EQ(answer(without_checkpoints, {.ranks = 1, .memory = training}), "");
  EXPECT_EQ(answer(without_checkpoints, {.ranks = 1, .memory = training - 1}),
            "weights, gradients and optimizer state of 125.3M parameters take 2.1 GiB, and 2.1 GiB of memory are free here; "
            "trireme recipes lists smaller models, or use fewer model.num_layers");
}

// A device with some memory, of which this program cannot have all.
class DeviceWithMemory final : public ForwardingBackend {
 public:
  explicit DeviceWithMemory(Backend& inner) : ForwardingBackend(inner) {}
  std::optional<DeviceMemory> device_memory() const override { return DeviceMemory{.used = 200, .total = 1000}; }
};

TEST(FitTest, TheMemoryIsThatOfTheDevice) {
  ReferenceBackend host_backend;
  const Resources host{.ranks = 4, .memory = 77, .host_memory = {}};
  EXPECT_EQ(resources_of(host_backend, host, 1).memory, 77);
  EXPECT_FALSE(resources_of(host_backend, host, 1).host_memory);
  const DeviceWithMemory device(host_backend);
  const Resources found = resources_of(device, host, 2);
  EXPECT_EQ(found.ranks, 4);
  EXPECT_EQ(found.memory, 400);  // shared by two ranks
  EXPECT_EQ(found.host_memory, 77);
}

// The model must fit the GPU, the copy that checkpoints are saved from the host.
TEST(FitTest, TheCopyIsInTheMemoryOfTheHost) {
  const int64_t training = kParameters * 18, copy = kParameters * 12;
  EXPECT_EQ(answer(small(), {.ranks = 1, .memory = training, .host_memory = copy}), "");
  EXPECT_TRUE(
      contains(answer(small(), {.ranks = 1, .memory = training - 1, .host_memory = 10 * copy}), "of GPU memory are free"));
  EXPECT_TRUE(
      contains(answer(small(), {.ranks = 1, .memory = 10 * training, .host_memory = copy - 1}), "checkpoint_callback=false"));
}

TEST(FitTest, RanksThatAreNotThere) {
  Settings settings = small();
  settings.trainer.num_nodes = 2;
  settings.trainer.devices = 8;
  settings.model.tensor_model_parallel_size = 2;
  settings.model.pipeline_model_parallel_size = 2;
  settings.model.virtual_pipeline_model_parallel_size = 3;
  settings.model.global_batch_size = 8;
  const std::string needs = "this recipe is for 16 ranks (2 nodes x 8: TP 2, PP 2, VP 3, DP 4)";
  const std::string add =
      "; 1 rank was started: add trainer.num_nodes=1 trainer.devices=1 model.tensor_model_parallel_size=1 "
      "model.pipeline_model_parallel_size=1 model.virtual_pipeline_model_parallel_size=null";
  EXPECT_EQ(answer(settings, {.ranks = 1, .memory = int64_t{1} << 40}), needs + add);
  EXPECT_EQ(answer(settings, {.ranks = 1, .memory = int64_t{3} << 30}),
            needs + add + " exp_manager.create_checkpoint_callback=false");
  EXPECT_EQ(answer(settings, {.ranks = 1, .memory = int64_t{1} << 30}),
            needs +
                " and keeps 2.1 GiB of weights, gradients and optimizer state; 1 rank was started, with 1.0 GiB of memory free; "
                "trireme recipes lists smaller models");
  EXPECT_EQ(answer(settings, {.ranks = 8, .memory = 0}),
            needs + "; 8 ranks were started: start it with mpirun -n 16, or add trainer.num_nodes=1 trainer.devices=8");
  EXPECT_EQ(answer(settings, {.ranks = 16, .memory = 1}), "");  // what one of several ranks keeps is for its own plan to say
}

TEST(FitTest, TheWholePlan) {
  const std::vector<std::pair<std::string, int64_t>> rows = {{"parameters", 1 << 20}, {"masters", 0}, {"activations", 3 << 20}};
  EXPECT_EQ(user_error_of([&] { require_memory(rows, {.ranks = 1, .memory = 4 << 20}); }), "");
  EXPECT_EQ(
      user_error_of([&] { require_memory(rows, {.ranks = 1, .memory = (4 << 20) - 1}); }),
      "this run takes 4.0 MiB (parameters 1.0 MiB, activations 3.0 MiB), and 4.0 MiB of memory are free here; use a smaller "
      "model.micro_batch_size, or model.activations_checkpoint_granularity=full");
}

// The cpu backend under the name of a GPU.
class NamedGpu final : public ForwardingBackend {
 public:
  explicit NamedGpu(Backend& inner) : ForwardingBackend(inner) {}
  std::string device_name() const override { return "GPU X"; }
  bool has_f16() const override { return false; }
  std::string description() const override { return "cuda: GPU X"; }
};

TEST(FitTest, WhatNeedsAGpuIsSaidBeforeTheRun) {
  CpuBackend cpu(1);
  const NamedGpu gpu(cpu);
  Settings settings;
  ModelSettings& model = settings.model;
  model.data.reset_position_ids = model.data.reset_attention_mask = model.data.eod_mask_loss = true;
  EXPECT_EQ(user_error_of([&] { require_device(settings, cpu), require_device(settings, gpu); }), "");
  model.cuda_graph = CudaGraph::yes;
  EXPECT_EQ(user_error_of([&] { require_device(settings, gpu); }), "");
  EXPECT_EQ(user_error_of([&] { require_device(settings, cpu); }),
            "model.enable_cuda_graph=true needs a GPU, and this run is on " + cpu.description() + "; use false");
  model.cuda_graph = CudaGraph::where_it_pays;
  settings.trainer.precision = Precision::f16;
  EXPECT_EQ(user_error_of([&] { require_device(settings, cpu); }), "");
  EXPECT_EQ(user_error_of([&] { require_device(settings, gpu); }),
            "trainer.precision=16: fp16 is for CPUs, and this run is on cuda: GPU X; use bf16, or trainer.backend=cpu");
}

}  // namespace
}  // namespace trireme
