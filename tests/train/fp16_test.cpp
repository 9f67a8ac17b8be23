// fp16 with dynamic loss scaling: PyTorch's losses and scales, steps skipped on all ranks when one overflows, and the scale in
// checkpoints.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/forwarding_backend.h"
#include "backend/reference/reference_backend.h"
#include "support/golden_file.h"
#include "support/layouts.h"
#include "support/temporary_folder.h"
#include "train/engine_checkpoint.h"

namespace trireme {
namespace {

EngineSettings fp16_settings(ModelSettings model) {
  return {.model = std::move(model), .precision = Precision::f16, .gradient_clip = 1.0};
}

// ------------------------------------------------------------------------------------------------------------ PyTorch

class Fp16Golden : public testing::TestWithParam<const char*> {};

// fp16 has 11 bits, and another order of summation rounds some activations the other way: 2^-11 of them, of either sign, which
// some hundred of them average to far less in a loss. Training multiplies the difference.
TEST_P(Fp16Golden, LossesAndScalesAreThoseOfGradScaler) {
  constexpr double kLossTolerance = 2e-3, kNormTolerance = 1e-2;
  const GoldenFile golden("fp16");
  const Settings settings = golden.settings();
  ASSERT_EQ(settings.trainer.precision, Precision::f16);
  std::unique_ptr<Backend> backend;
  if (std::string(GetParam()) == "reference")
    backend = std::make_unique<ReferenceBackend>();
  else
    backend = std::make_unique<CpuBackend>(2);
  EngineFixture engine(
      {.model = settings.model, .precision = Precision::f16, .gradient_clip = settings.trainer.gradient_clip_val},
      std::move(backend));
  golden.set_parameters(engine);
  const std::vector<Batch> batch{golden.batch(settings.model)};
  const auto losses = golden.read<double>("losses"), norms = golden.read<double>("grad_norms"),
             scales = golden.read<double>("loss_scales"), finite = golden.read<double>("finite");
  for (size_t step = 0; step < losses.size(); ++step) {
    SCOPED_TRACE(fmt::format("step {}", step));
    const StepResult result = engine.step(batch, settings.model.optim.lr);
    EXPECT_NEAR(result.loss, losses[step], kLossTolerance);
    EXPECT_EQ(result.loss_scale, scales[step]);
    EXPECT_EQ(result.finite, finite[step] != 0);
    if (result.finite) {
      EXPECT_NEAR(result.grad_norm / norms[step], 1, kNormTolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Fp16Golden, testing::Values("reference", "cpu"),
                         [](const auto& test) { return std::string(test.param); });

// ------------------------------------------------------------------------------------------------------------ layouts

// Makes one gradient of a block infinite, on one rank. The rows of the LM head may all be padding there, which does not count.
class OverflowingBackend final : public ForwardingBackend {
 public:
  OverflowingBackend(std::unique_ptr<Backend> inner, int64_t head_rows)
      : ForwardingBackend(*inner), owned_(std::move(inner)), head_rows_(head_rows) {}
  void overflow_once() { overflows_ = true; }

#define TRIREME_FORWARD_OP(Op)                     \
  void run(Stream stream, const Op& op) override { \
    inner_.run(stream, op);                        \
    overflow_after(op);                            \
  }                                                \
  int64_t scratch_bytes(const Op& op) const override { return inner_.scratch_bytes(op); }
  TRIREME_OPS(TRIREME_FORWARD_OP)
#undef TRIREME_FORWARD_OP

 private:
  template <class Op>
  void overflow_after(const Op& op) {
    if constexpr (std::is_same_v<Op, LinearWeightGrad>)
      if (op.d_weight.shape[0] != head_rows_ && std::exchange(overflows_, false))
        op.d_weight.template as<float>()[1] = std::numeric_limits<float>::infinity();
  }

  std::unique_ptr<Backend> owned_;
  int64_t head_rows_;
  bool overflows_ = false;
};

constexpr int kSteps = 5, kBadStep = 2;

std::vector<RankRun> train_with_overflow(const Layout& layout) {
  return on_ranks(layout.shape.size(), [&](World& world, RankRun& run) {
    auto cpu = std::make_unique<CpuBackend>(1);
    cpu->set_streams(world.streams());
    auto owned = std::make_unique<OverflowingBackend>(std::move(cpu), layout.model.padded_vocabulary() / layout.shape.tp);
    OverflowingBackend& backend = *owned;
    EngineFixture engine(fp16_settings(layout.model), std::move(owned), Mesh::of(layout.shape, world),
                         {layout.shape, world.rank()});
    const ModelSettings& model = layout.model;
    for (int step = 0; step < kSteps; ++step) {
      if (step == kBadStep && world.rank() == layout.shape.size() - 1) backend.overflow_once();
      run.results.push_back(engine.step(batches_of(model, layout.shape, world.rank(), step), 1e-2,
                                        model.global_batch_size * model.encoder_seq_length));
    }
  });
}

std::vector<Layout> layouts() {
  const auto changed = [](ModelSettings model, auto change) {
    model.loss_scale = {.init_scale = 4096, .growth_interval = 2, .hysteresis = 1};
    change(model);
    return model;
  };
  const auto plain = changed(small_gpt3(), [](ModelSettings&) {});
  const auto sequence = changed(small_neox(), [](ModelSettings& m) { m.sequence_parallel = true; });
  const auto sharded = changed(small_llama(), [](ModelSettings& m) { m.optim.name = Optimizer::distributed_fused_adam; });
  const auto fsdp = changed(small_gpt3(), [](ModelSettings& m) { m.fsdp = true, m.optim.overlap_grad_sync = true; });
  const auto recomputed =
      changed(small_gpt3(), [](ModelSettings& m) { m.activations_checkpoint_granularity = RecomputeGranularity::full; });
  return {layout_of("tp2_sp", sequence, {.tp = 2}),
          layout_of("pp2", plain, {.pp = 2}),
          layout_of("dp2", plain, {.dp = 2}),
          layout_of("dp2_sharded", sharded, {.dp = 2}),
          layout_of("dp2_fsdp", fsdp, {.dp = 2}),
          layout_of("cp2", plain, {.cp = 2}),
          layout_of("tp2_pp2", recomputed, {.tp = 2, .pp = 2})};
}

class Fp16Layouts : public testing::TestWithParam<Layout> {};

// An overflow on one rank skips exactly that step on all of them. fp16 has more bits than bf16, whose tolerance is 2e-3.
TEST_P(Fp16Layouts, OneOverflowSkipsTheStepOnAllRanks) {
  constexpr double kTolerance = 1e-3;
  const Layout& layout = GetParam();
  const std::vector<StepResult> one = train_with_overflow(on_one_rank(layout))[0].results;
  for (const RankRun& run : train_with_overflow(layout))
    for (int step = 0; step < kSteps; ++step) {
      SCOPED_TRACE(fmt::format("step {}", step));
      const StepResult &got = run.results[static_cast<size_t>(step)], &expected = one[static_cast<size_t>(step)];
      EXPECT_EQ(got.finite, step != kBadStep);
      EXPECT_EQ(expected.finite, step != kBadStep);
      EXPECT_EQ(got.loss_scale, expected.loss_scale);
      EXPECT_NEAR(got.loss, expected.loss, kTolerance * expected.loss);
      if (got.finite) {
        EXPECT_NEAR(got.grad_norm, expected.grad_norm, 10 * kTolerance * expected.grad_norm);
      }
    }
  const std::vector<double> scales = {4096, 4096, 8192, 4096, 4096};  // doubled after two steps, halved by the overflow
  for (int step = 0; step < kSteps; ++step)
    EXPECT_EQ(one[static_cast<size_t>(step)].loss_scale, scales[static_cast<size_t>(step)]) << step;
}

INSTANTIATE_TEST_SUITE_P(Layouts, Fp16Layouts, testing::ValuesIn(layouts()), [](const auto& test) { return test.param.name; });

// ------------------------------------------------------------------------------------------------------------ one rank

ModelSettings overflowing_model() {
  ModelSettings model = small_model();
  model.loss_scale = {.init_scale = 0x1p26, .growth_interval = 2, .hysteresis = 2};
  return model;
}

std::vector<Batch> batches_at(const ModelSettings& model, int step) { return batches_of(model, {}, 0, step); }

TEST(Fp16, SkippedStepsChangeNoParameterAndCountNoUpdate) {
  EngineFixture engine(fp16_settings(overflowing_model()), std::make_unique<CpuBackend>(1));
  const auto masters = [&] {
    std::vector<float> all;
    for (size_t row = 0; row < engine->layout().table.size(); ++row)

      std::copy_n(engine.master(row).data(), engine->layout().table[row].count(), std::back_inserter(all));
    return all;
  };
  const std::vector<float> before = masters();
  const StepResult result = engine.step(batches_at(engine->model(), 0), 1e-2);
  EXPECT_FALSE(result.finite);
  EXPECT_TRUE(std::isfinite(result.loss));
  EXPECT_EQ(masters(), before);
  EXPECT_EQ(engine->updates(), 0);
}

// The scale and its counters go on from a checkpoint with the same bits, whatever stage of its course they are at.
TEST(Fp16, ResumesWithTheSameBits) {
  const TemporaryFolder folder;
  constexpr int kSaveAfter = 7, kAll = 14;
  const EngineSettings settings = fp16_settings(overflowing_model());
  std::vector<StepResult> expected, got;
  {
    EngineFixture engine(settings, std::make_unique<CpuBackend>(1));
    CheckpointWriter writer(folder.path(), checkpoint_tensors(*engine, CheckpointUse::save), {});
    for (int step = 0; step < kAll; ++step) {
      expected.push_back(engine.step(batches_at(settings.model, step), 1e-2));
      if (step + 1 == kSaveAfter) writer.snapshot({.step = step + 1, .state = {{"updates", engine->updates()}}});
    }
    writer.wait();
  }
  EngineFixture engine(settings, std::make_unique<CpuBackend>(1));
  const StoredCheckpoint checkpoint = open_checkpoint(folder / checkpoint_name(kSaveAfter));
  load_checkpoint(checkpoint, checkpoint_tensors(*engine, CheckpointUse::load));
  engine->restore_updates(checkpoint.manifest.info.state.at("updates").get<int64_t>());
  for (int step = kSaveAfter; step < kAll; ++step) got.push_back(engine.step(batches_at(settings.model, step), 1e-2));
  std::set<double> scales;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].loss, expected[i + kSaveAfter].loss);
    EXPECT_EQ(got[i].grad_norm, expected[i + kSaveAfter].grad_norm);
    EXPECT_EQ(got[i].loss_scale, expected[i + kSaveAfter].loss_scale);
    scales.insert(got[i].loss_scale);
  }
  EXPECT_GT(scales.size(), 1u);
  EXPECT_FALSE(expected.front().finite);
}

// A checkpoint of a bf16 run has no scale.
TEST(Fp16, ContinuesARunWithoutAScale) {
  const TemporaryFolder folder;
  EngineSettings settings = fp16_settings(small_model());
  settings.precision = Precision::bf16;
  EngineFixture bf16_run(settings, std::make_unique<CpuBackend>(1));
  CheckpointWriter writer(folder.path(), checkpoint_tensors(*bf16_run, CheckpointUse::save), {});
  writer.snapshot({.step = 1});
  writer.wait();
  settings.precision = Precision::f16;
  EngineFixture engine(settings, std::make_unique<CpuBackend>(1));
  const StoredCheckpoint checkpoint = open_checkpoint(folder / checkpoint_name(1));
  std::vector<CheckpointTensor> wanted = checkpoint_tensors(*engine, CheckpointUse::load);
  keep_scales_if_there(checkpoint.manifest, wanted);
  load_checkpoint(checkpoint, wanted);
  engine->restore_updates(0);
  EXPECT_EQ(engine.step(batches_at(settings.model, 0), 1e-2).loss_scale, settings.model.loss_scale.init_scale);
}

}  // namespace
}  // namespace trireme
