// What a training step promises: no allocation, the same losses however the batch is cut, nothing changed by gradients that are
// not finite.
#include "train/engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "support/allocation_counter.h"
#include "support/engine_fixture.h"
#include "support/late_backend.h"
#include "support/scribbling_backend.h"

namespace trireme {
namespace {

EngineSettings settings_of(const ModelSettings& model, Precision precision) {
  return {.model = model, .precision = precision, .gradient_clip = 1.0};
}

// `samples` samples in micro-batches of `micro_batch`.
std::vector<Batch> batches_of(const ModelSettings& model, int64_t micro_batch, int64_t samples) {
  std::vector<Batch> batches;
  for (int64_t first = 0; first < samples; first += micro_batch)
    batches.push_back(make_batch(micro_batch, model.encoder_seq_length, model.vocab_size, first));
  return batches;
}

std::vector<double> losses_of(ModelSettings model, Precision precision, int64_t micro_batch, int threads = 2) {
  model.micro_batch_size = micro_batch;
  EngineFixture engine(settings_of(model, precision), std::make_unique<ScribblingBackend>(std::make_unique<CpuBackend>(threads)));
  std::vector<double> losses;
  for (int step = 0; step < 5; ++step) losses.push_back(engine.step(batches_of(model, micro_batch, 4), 3e-3).loss);
  return losses;
}

TEST(EngineTest, SteadyStepAllocatesNothing) {
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    ModelSettings model = small_model();
    model.activations_checkpoint_granularity = RecomputeGranularity::selective;
    EngineFixture engine(settings_of(model, precision), std::make_unique<CpuBackend>(2));
    const auto batches = batches_of(model, model.micro_batch_size, 4);
    engine.step(batches, 1e-3);
    const int64_t before = allocation_count;
    for (int step = 0; step < 3; ++step) engine.step(batches, 1e-3);
    EXPECT_EQ(allocation_count - before, 0);
  }
}

// Results that are read when the next step has been started are those of their own step.
TEST(EngineTest, ResultsCanBeReadOneStepLate) {
  const ModelSettings model = small_model();
  const auto settings = settings_of(model, Precision::bf16);
  EngineFixture at_once(settings, std::make_unique<CpuBackend>(2)), late(settings, std::make_unique<CpuBackend>(2));
  const auto batches_of_step = [&](int64_t step) {
    std::vector<Batch> batches = batches_of(model, model.micro_batch_size, 4 + 4 * step);
    return std::vector<Batch>(batches.end() - 4 / model.micro_batch_size, batches.end());
  };
  constexpr int64_t kSteps = 4;
  std::vector<StepResult> expected, got;
  for (int64_t step = 0; step < kSteps; ++step) {
    const std::vector<Batch> batches = batches_of_step(step);
    const int64_t targets = 4 * model.encoder_seq_length - step;  // another mean for each: targets belong to a step too
    expected.push_back(at_once.step(batches, 1e-3, targets));
    late.start(batches, 1e-3, targets);
    if (step > 0) got.push_back(late->finish_step());
  }
  got.push_back(late->finish_step());
  for (size_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(got[step].loss, expected[step].loss) << step;
    EXPECT_EQ(got[step].grad_norm, expected[step].grad_norm) << step;
    EXPECT_GT(got[step].done_at, step > 0 ? got[step - 1].done_at : 0);
  }
}

// Five layers, so that all memory which layers take in turn is taken again.
std::vector<ModelSettings> models_of_five_layers() {
  ModelSettings gpt3 = small_model();
  gpt3.num_layers = 5;
  ModelSettings dropout = gpt3, parallel = gpt3, llama = gpt3;
  dropout.hidden_dropout = 0.1;
  parallel.parallel_residual = true;
  parallel.share_embeddings_and_output_weights = false;
  ModelSettings parallel_dropout = parallel, shared_norm = parallel;
  shared_norm.shared_attention_norm = true;
  parallel_dropout.hidden_dropout = 0.1;
  llama.normalization = Normalization::rmsnorm;
  llama.activation = MlpActivation::swiglu;
  llama.bias = false;
  return {gpt3, dropout, parallel, parallel_dropout, shared_norm, llama};
}

// Weight products beside the rest of backward find their operands and are done in time, however late they begin.
TEST(EngineTest, WeightProductsBesideBackwardChangeNoBit) {
  for (const ModelSettings& model : models_of_five_layers()) {
    const auto settings = settings_of(model, Precision::bf16);
    const auto cpu = [] { return std::make_unique<ScribblingBackend>(std::make_unique<CpuBackend>(2)); };
    auto backend = std::make_unique<LateBackend>(cpu());
    const LateBackend& late = *backend;
    EngineFixture beside(settings, std::move(backend)), now(settings, cpu());
    const auto batches = batches_of(model, model.micro_batch_size, 4);
    for (int step = 0; step < 3; ++step) {
      const StepResult got = beside.step(batches, 3e-3), expected = now.step(batches, 3e-3);
      EXPECT_EQ(got.loss, expected.loss) << step;
      EXPECT_EQ(got.grad_norm, expected.grad_norm) << step;
    }
    const auto products_of_layer = 4u, micro_batches = 2u, steps = 3u;
    EXPECT_EQ(late.put_off_in_all(), 5 * products_of_layer * micro_batches * steps);
    EXPECT_EQ(late.left(), 0u);
  }
}

// What layers share while they compute something again would be overwritten before late products have read it.
TEST(EngineTest, WeightProductsAreMadeNowWhereInputsAreMadeAgain) {
  ModelSettings selective = small_model(), full = selective, fp8 = selective;
  selective.activations_checkpoint_granularity = RecomputeGranularity::selective;
  full.activations_checkpoint_granularity = RecomputeGranularity::full;
  fp8.fp8.enabled = true;
  for (const ModelSettings& model : {selective, full, fp8}) {
    auto backend = std::make_unique<LateBackend>(std::make_unique<ReferenceBackend>());
    const LateBackend& late = *backend;
    EngineFixture engine(settings_of(model, Precision::bf16), std::move(backend));
    engine.step(batches_of(model, model.micro_batch_size, 4), 3e-3);
    EXPECT_EQ(late.put_off_in_all(), 0u);
  }
}

TEST(EngineTest, LossFallsOnTheSameBatch) {
  const auto losses = losses_of(small_model(), Precision::bf16, 4);
  EXPECT_LT(losses.back(), losses.front() - 0.1);
}

// The same samples in other micro-batches: only the order of additions differs. Five steps of f32 rounding at a loss of about 4
// stay far below 1e-5; a sample lost, repeated or weighted wrongly, or dropout keyed by the row of a micro-batch, moves the loss
// by more than 1e-3.
TEST(EngineTest, MicroBatchSplitGivesTheSameLosses) {
  const auto whole = losses_of(small_model(), Precision::f32, 4);
  for (const int64_t micro_batch : {1, 2}) {
    const auto split = losses_of(small_model(), Precision::f32, micro_batch);
    for (size_t i = 0; i < whole.size(); ++i)
      EXPECT_NEAR(split[i], whole[i], 1e-5) << "micro-batch " << micro_batch << ", step " << i;
  }
}

TEST(EngineTest, ResultsDoNotDependOnTheNumberOfThreads) {
  for (const Precision precision : {Precision::f32, Precision::bf16})
    EXPECT_EQ(losses_of(small_model(), precision, 2, 1), losses_of(small_model(), precision, 2, 3));
}

TEST(EngineTest, RecomputeModesGiveEqualBits) {
  ModelSettings model = small_model();
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    model.activations_checkpoint_granularity = RecomputeGranularity::none;
    const auto expected = losses_of(model, precision, 2);
    model.activations_checkpoint_granularity = RecomputeGranularity::selective;
    EXPECT_EQ(losses_of(model, precision, 2), expected);
    model.activations_checkpoint_granularity = RecomputeGranularity::full;
    for (const RecomputeMethod method : {RecomputeMethod::uniform, RecomputeMethod::block}) {
      model.activations_checkpoint_method = method;
      EXPECT_EQ(losses_of(model, precision, 2), expected);
    }
  }
}

TEST(EngineTest, RecomputeNeedsLessMemory) {
  ModelSettings model = small_model();
  model.num_layers = 6;
  const CpuBackend backend(1);
  const auto activations = [&](RecomputeGranularity granularity) {
    model.activations_checkpoint_granularity = granularity;
    return plan_memory(settings_of(model, Precision::f32), backend, 1).activations();
  };
  const int64_t none = activations(RecomputeGranularity::none), selective = activations(RecomputeGranularity::selective);
  EXPECT_LT(selective, none);
  EXPECT_LT(activations(RecomputeGranularity::full), selective);
}

// Inputs of linear layers are not kept, the weights of the blocks have two copies more, and the products stay the same.
TEST(EngineTest, Fp8IsInTheMemoryPlan) {
  ModelSettings model = small_model();
  model.num_layers = 6;
  const ReferenceBackend backend;
  const auto plan = [&](bool fp8, RecomputeGranularity granularity = RecomputeGranularity::none) {
    model.fp8.enabled = fp8;
    model.activations_checkpoint_granularity = granularity;
    return plan_memory(settings_of(model, Precision::bf16), backend, 2);
  };
  const MemoryPlan fp8 = plan(true), bf16 = plan(false);
  const int64_t N = 32, C = 32, L = 6;
  EXPECT_EQ(fp8.flops, bf16.flops);
  EXPECT_EQ(fp8.arenas.parameters.peak() - bf16.arenas.parameters.peak(), 2 * 12 * C * C * L);
  // normed1, normed2 and activated [N,4C] of two bytes each; attention's backward reads attended.
  EXPECT_EQ(bf16.activations() - fp8.activations(), 2 * (1 + 1 + 4) * N * C * L);
  EXPECT_EQ(plan(true, RecomputeGranularity::selective).total(), fp8.total());
  EXPECT_LT(plan(true, RecomputeGranularity::full).activations(), fp8.activations());
}

TEST(EngineTest, NonFiniteGradientsChangeNothingAndAreLocated) {
  const ModelSettings model = small_model();
  EngineFixture engine(settings_of(model, Precision::f32), std::make_unique<CpuBackend>(2));
  const auto batches = batches_of(model, 2, 4);
  ASSERT_TRUE(engine.step(batches, 1e-3).finite);
  // A weight that overflows: the up projection of block 1 gives Inf, and everything behind it NaN.
  float& weight = *engine->weights().views().block(1).up_weight.tensor.as<float>();  // its own master
  const float healthy = weight;
  weight = std::numeric_limits<float>::infinity();
  const auto after = engine->weights().views().flat().span<float>();
  const std::vector<float> before(after.begin(), after.end());
  const StepResult result = engine.step(batches, 1e-3);
  EXPECT_FALSE(result.finite);
  EXPECT_NE(result.nonfinite.find("gradient of "), std::string::npos) << result.nonfinite;
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
  EXPECT_EQ(engine->updates(), 1);
  weight = healthy;
  EXPECT_TRUE(engine.step(batches, 1e-3).finite);
  EXPECT_EQ(engine->updates(), 2);
}

TEST(EngineTest, TokensOutsideTheVocabularyAreRefused) {
  const ModelSettings model = small_model();
  EngineFixture engine(settings_of(model, Precision::f32), std::make_unique<CpuBackend>(1));
  const auto good = batches_of(model, 2, 4);
  for (const int64_t token : {int64_t{-1}, model.vocab_size}) {
    auto wrong = good;
    wrong[0].tokens[3] = static_cast<int32_t>(token);
    EXPECT_THROW(engine.step(wrong, 1e-3), Failure) << token;
  }
  auto wrong = good;
  wrong[0].targets[3] = static_cast<int32_t>(model.vocab_size);
  EXPECT_THROW(engine.step(wrong, 1e-3), Failure);
  EXPECT_TRUE(engine.step(good, 1e-3).finite);
}

// The recording and the formula count the same products. The formula's "causal" form takes half of T keys for each query, the
// recording (T+1)/2 of them and five products in attention's backward where the formula has four.
TEST(EngineTest, RecordedFlopsFollowTheFormula) {
  ModelSettings model = small_model();
  model.vocab_size = model.make_vocab_size_divisible_by;
  const CpuBackend backend(1);
  const double N = 32, C = 32, L = 2, T = 16, V = 64;
  const double linear = 6 * N * (12 * C * C * L + C * V), attention = L * N * (T + 1) / 2 * C * (4 + 10);
  EXPECT_DOUBLE_EQ(plan_memory(settings_of(model, Precision::f32), backend, 1).flops, linear + attention);
}

}  // namespace
}  // namespace trireme
