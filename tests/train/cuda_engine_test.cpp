// Training on a GPU: the losses of the cpu backend, the same bits twice, and everything that a recipe may choose. Runs where a
// GPU is.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "support/engine_fixture.h"
#include "support/gpu.h"
#include "support/temporary_folder.h"
#include "train/checkpoint/checkpoint.h"
#include "train/engine_checkpoint.h"

namespace trireme {
namespace {

std::vector<StepResult> train(const ModelSettings& model, Precision precision, std::unique_ptr<Backend> backend, int steps) {
  EngineFixture engine({.model = model, .precision = precision, .gradient_clip = 1.0}, std::move(backend));
  const DocumentRules documents{
      .end_token = 3, .resets_positions = model.data.reset_position_ids, .resets_attention = model.data.reset_attention_mask};
  std::vector<StepResult> results;
  for (int step = 0; step < steps; ++step) {
    std::vector<Batch> batches;
    for (int64_t first = 0; first < model.global_batch_size; first += model.micro_batch_size)
      batches.push_back(make_batch(model.micro_batch_size, model.encoder_seq_length, model.vocab_size,
                                   (step % 4) * model.global_batch_size + first, {}, documents));
    results.push_back(engine.step(batches, 3e-3));
  }
  return results;
}

void expect_equal_bits(const std::vector<StepResult>& got, const std::vector<StepResult>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t step = 0; step < got.size(); ++step) {
    EXPECT_EQ(got[step].loss, expected[step].loss) << "step " << step;
    EXPECT_EQ(got[step].grad_norm, expected[step].grad_norm) << "step " << step;
  }
}

ModelSettings gpt3() {
  ModelSettings model = small_model();
  model.hidden_dropout = 0.1;
  return model;
}

ModelSettings neox() {
  ModelSettings model = small_model();
  model.position_embedding_type = PositionEmbedding::rope;
  model.rotary_percentage = 0.5;
  model.parallel_residual = true;
  model.share_embeddings_and_output_weights = false;
  model.activation = MlpActivation::gelu_erf;
  return model;
}

ModelSettings llama() {
  ModelSettings model = small_model();
  model.position_embedding_type = PositionEmbedding::rope;
  model.normalization = Normalization::rmsnorm;
  model.activation = MlpActivation::swiglu;
  model.bias = false;
  model.num_query_groups = 2;
  model.share_embeddings_and_output_weights = false;
  return model;
}

// Documents that do not see each other: a few in every sample.
ModelSettings with_documents(ModelSettings model) {
  model.vocab_size = 9;
  model.data.reset_position_ids = model.data.reset_attention_mask = true;
  return model;
}

// Wide enough for cuDNN's attention.
ModelSettings with_wide_heads(ModelSettings model) {
  model.hidden_size = 256;
  model.ffn_hidden_size = 512;
  model.encoder_seq_length = model.max_position_embeddings = 128;
  model.init_method_std = 0.02;
  return model;
}

// f32 on both: sums of the same terms in another order. A step multiplies a relative difference of 1e-7 by some factor, and
// thirty steps compound it; 1e-3 of a loss near 4 is far below what a wrong gradient anywhere does within a few steps.
TEST(CudaEngine, LossesOfThirtyStepsAreThoseOfTheCpu) {
  SKIP_WITHOUT_GPU();
  for (const ModelSettings& model : {gpt3(), neox(), llama(), with_documents(llama())}) {
    const auto gpu = train(model, Precision::f32, make_cuda_backend(), 30);
    const auto cpu = train(model, Precision::f32, std::make_unique<CpuBackend>(2), 30);
    for (size_t step = 0; step < cpu.size(); ++step) {
      EXPECT_NEAR(gpu[step].loss, cpu[step].loss, 1e-3 * cpu[step].loss) << "step " << step;
      EXPECT_NEAR(gpu[step].grad_norm, cpu[step].grad_norm, 1e-2 * cpu[step].grad_norm) << "step " << step;
    }
    EXPECT_LT(cpu.back().loss, cpu.front().loss - 0.3);  // there was something to learn
  }
}

// In bf16 every activation is rounded to 2^-9 of itself, and not at the same places: products with a GELU behind them round once
// less on the GPU. Ten steps of that were seen to move losses by 2e-3 of themselves.
TEST(CudaEngine, LossesInBf16FollowThoseOfTheCpu) {
  SKIP_WITHOUT_GPU();
  for (const ModelSettings& small : {gpt3(), neox(), llama(), with_documents(llama())}) {
    const ModelSettings model = with_wide_heads(small);
    // With documents there are nine tokens, losses jump by a quarter from step to step, and differences grow as fast.
    const int steps = model.data.reset_attention_mask ? 4 : 10;
    const auto gpu = train(model, Precision::bf16, make_cuda_backend(), steps);
    const auto cpu = train(model, Precision::bf16, std::make_unique<CpuBackend>(), steps);
    for (size_t step = 0; step < cpu.size(); ++step)
      EXPECT_NEAR(gpu[step].loss, cpu[step].loss, 1e-2 * cpu[step].loss) << "step " << step;
  }
}

TEST(CudaEngine, TwoRunsGiveEqualBits) {
  SKIP_WITHOUT_GPU();
  ModelSettings model = with_wide_heads(gpt3());
  model.attention_dropout = 0.1;
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const auto first = train(model, precision, make_cuda_backend(), 10);
    expect_equal_bits(train(model, precision, make_cuda_backend(), 10), first);
  }
}

// What has little work for the device makes its weight products beside the rest of backward, unless it computes things again.
// More layers than memory that they take in turn, and than events that are kept.
TEST(CudaEngine, WeightProductsBesideBackwardChangeNoBit) {
  SKIP_WITHOUT_GPU();
  ModelSettings model = with_wide_heads(small_model());
  model.num_layers = 24;
  ASSERT_TRUE(make_cuda_backend()->has_room_for_wgrad(model.micro_batch_size * model.encoder_seq_length, model.hidden_size));
  const auto beside = train(model, Precision::bf16, make_cuda_backend(), 8);
  model.activations_checkpoint_granularity = RecomputeGranularity::full;
  model.activations_checkpoint_method = RecomputeMethod::uniform;
  expect_equal_bits(beside, train(model, Precision::bf16, make_cuda_backend(), 8));
}

// Full recompute runs the same kernels again. Selective rebuilds GELU from the stored, rounded input, which the fused product did
// not round: equal up to that.
TEST(CudaEngine, RecomputeModesGiveTheSameLosses) {
  SKIP_WITHOUT_GPU();
  ModelSettings model = with_wide_heads(gpt3());
  const auto expected = train(model, Precision::bf16, make_cuda_backend(), 5);
  model.activations_checkpoint_granularity = RecomputeGranularity::selective;
  const auto selective = train(model, Precision::bf16, make_cuda_backend(), 5);
  model.activations_checkpoint_granularity = RecomputeGranularity::full;
  model.activations_checkpoint_method = RecomputeMethod::uniform;
  const auto full = train(model, Precision::bf16, make_cuda_backend(), 5);
  for (size_t step = 0; step < expected.size(); ++step) {
    EXPECT_EQ(full[step].loss, expected[step].loss) << "step " << step;
    EXPECT_NEAR(selective[step].loss, expected[step].loss, 5e-3 * expected[step].loss) << "step " << step;
  }
}

// Through files, as a run does it.
TEST(CudaEngine, ResumedRunRepeatsTheUninterruptedOne) {
  SKIP_WITHOUT_GPU();
  const TemporaryFolder folder;
  const ModelSettings model = with_wide_heads(gpt3());
  const EngineSettings settings{.model = model, .precision = Precision::bf16, .gradient_clip = 1.0};
  const std::vector<Batch> batches = {make_batch(2, model.encoder_seq_length, model.vocab_size, 0),
                                      make_batch(2, model.encoder_seq_length, model.vocab_size, 2)};
  EngineFixture first(settings, make_cuda_backend()), second(settings, make_cuda_backend());
  for (int step = 0; step < 3; ++step) first.step(batches, 3e-3);
  CheckpointWriter writer(folder.path(), checkpoint_tensors(*first, CheckpointUse::save), {.keep_last = 1});
  writer.snapshot({.step = 3});
  writer.wait();
  load_newest(folder.path(), [&](const CheckpointManifest&) { return checkpoint_tensors(*second, CheckpointUse::load); });
  second->restore_updates(first->updates());
  for (int step = 3; step < 6; ++step) EXPECT_EQ(second.step(batches, 3e-3).loss, first.step(batches, 3e-3).loss) << step;
}

TEST(CudaEngine, MoreMemoryThanThereIsGetsOneLine) {
  SKIP_WITHOUT_GPU();
  const auto backend = make_cuda_backend();
  try {
    backend->allocate(int64_t{1} << 46);
    FAIL() << "64 TiB were allocated";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("out of GPU memory: 64.0 TiB were asked for"), std::string::npos)
        << failure.what();
  }
}

}  // namespace
}  // namespace trireme
