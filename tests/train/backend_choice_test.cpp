// What a run computes on, why, and what is said of GPUs that stay unused.
#include "train/backend_choice.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace trireme {
namespace {

std::vector<DeviceOffer> ranks_on(const std::string& host, int ranks, int devices) {
  return std::vector<DeviceOffer>(static_cast<size_t>(ranks), {.host = host, .visible = "", .devices = devices});
}

std::vector<DeviceOffer> joined(std::vector<DeviceOffer> a, const std::vector<DeviceOffer>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void expect(const BackendChoice& choice, const std::string& text, const std::string& warning) {
  EXPECT_EQ(choice.text(), text);
  EXPECT_EQ(choice.warning, warning);
}

TEST(BackendChoiceTest, AutoTakesAGpuPerRank) {
  expect(choose_backend(BackendKind::automatic, ranks_on("a", 1, 1), {}), "cuda: a GPU was found", "");
  expect(choose_backend(BackendKind::automatic, joined(ranks_on("a", 4, 4), ranks_on("b", 4, 4)), {}),
         "cuda: there is a GPU for each rank", "");
  // As srun does with --gpus-per-task=1.
  expect(choose_backend(BackendKind::automatic, {{"a", "0", 1}, {"a", "1", 1}}, {}), "cuda: there is a GPU for each rank", "");
}

TEST(BackendChoiceTest, WithoutGpusTheReasonIsGiven) {
  expect(choose_backend(BackendKind::automatic, ranks_on("a", 2, 0), {.text = "this build has no cuda backend", .has_gpu = true}),
         "cpu: this build has no cuda backend",
         "there is a driver for GPUs, and none is used: this build has no cuda backend; docs/gpu.md says how to build for them, "
         "trainer.backend=cpu leaves this out");
  expect(choose_backend(BackendKind::automatic, ranks_on("a", 1, 0), {.text = "no GPU was found"}), "cpu: no GPU was found", "");
}

TEST(BackendChoiceTest, MoreRanksThanGpusWarn) {
  expect(choose_backend(BackendKind::automatic, ranks_on("a", 4, 1), {}), "cpu: 4 ranks see 1 GPU",
         "1 GPU stays unused, because there are 4 ranks; start 1, or let ranks share GPUs with trainer.backend=cuda");
  expect(choose_backend(BackendKind::automatic, joined(ranks_on("a", 3, 2), ranks_on("b", 2, 2)), {}), "cpu: 5 ranks see 4 GPUs",
         "4 GPUs stay unused, because there are 5 ranks; start 4, or let ranks share GPUs with trainer.backend=cuda");
}

TEST(BackendChoiceTest, ARankWithoutAGpuIsNamed) {
  expect(choose_backend(BackendKind::automatic, joined(ranks_on("a", 2, 2), ranks_on("login", 1, 0)), {}),
         "cpu: rank 2 on login has no GPU",
         "2 GPUs of other ranks stay unused, because rank 2 on login has none; start ranks only where a GPU is");
}

TEST(BackendChoiceTest, MoreGpusThanRanksWarn) {
  const std::string warning =
      "7 of 8 GPUs stay unused: every rank uses one; start 8 ranks (mpirun -n 8), or hide them with CUDA_VISIBLE_DEVICES";
  expect(choose_backend(BackendKind::automatic, ranks_on("a", 1, 8), {}), "cuda: a GPU was found", warning);
  expect(choose_backend(BackendKind::cuda, ranks_on("a", 1, 8), {}), "cuda: trainer.backend=cuda", warning);
}

TEST(BackendChoiceTest, WhatIsAskedForIsDone) {
  expect(choose_backend(BackendKind::cuda, ranks_on("a", 4, 1), {}), "cuda: trainer.backend=cuda", "");
  expect(choose_backend(BackendKind::cpu, {}, {}), "cpu: trainer.backend=cpu", "");
  expect(choose_backend(BackendKind::reference, {}, {}), "reference: trainer.backend=reference", "");
}

}  // namespace
}  // namespace trireme
