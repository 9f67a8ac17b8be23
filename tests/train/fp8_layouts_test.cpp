// FP8 linear layers on any layout: the losses of one rank, what was planned, and one set of scales for all ranks. On the
// reference backend, whose ranks are threads.
#include "support/fp8_layouts.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "backend/reference/reference_backend.h"
#include "train/engine_checkpoint.h"

namespace trireme {
namespace {

constexpr int kSteps = 3;  // scaled by itself, by the first step, by two

std::unique_ptr<Backend> make_reference(World& world) {
  auto reference = std::make_unique<ReferenceBackend>();
  reference->set_streams(world.streams());
  return std::make_unique<ScribblingBackend>(std::move(reference));
}

std::vector<RankRun> train_on_reference(const Layout& layout) {
  return on_ranks(layout.shape.size(), [&](World& world, RankRun& run) {
    const std::unique_ptr<Backend> reference = make_reference(world);
    run_engine(layout, kSteps, world.rank(), std::make_unique<TracedBackend>(*reference, run.executed),
               traced(Mesh::of(layout.shape, world), run.executed), run);
  });
}

class Fp8Layouts : public testing::TestWithParam<Layout> {};
std::string name_of(const testing::TestParamInfo<Layout>& test) { return test.param.name; }
INSTANTIATE_TEST_SUITE_P(Quick, Fp8Layouts, testing::ValuesIn(quick_fp8_layouts()), name_of);
INSTANTIATE_TEST_SUITE_P(Slow, Fp8Layouts, testing::ValuesIn(slow_fp8_layouts()), name_of);

// Losses to the last bit; norms are summed in another order.
TEST_P(Fp8Layouts, RoundLikeThePlainOnes) {
  const Layout& layout = GetParam();
  const std::vector<RankRun> runs = train_on_reference(layout);
  const RankRun plain = train_on_reference(rounded_alike(layout))[0];
  for (const RankRun& run : runs) {
    EXPECT_EQ(run.evaluated, plain.evaluated);
    for (size_t step = 0; step < kSteps; ++step) {
      EXPECT_EQ(run.results[step].loss, plain.results[step].loss) << "step " << step;
      EXPECT_NEAR(run.results[step].grad_norm, plain.results[step].grad_norm, 1e-6 * plain.results[step].grad_norm);
    }
    expect_as_planned(run);
  }
}

// As far from one rank as FP8 is from bf16 in models of this size: fp8_training.h.
TEST_P(Fp8Layouts, AreNearOneRank) {
  const Layout& layout = GetParam();
  const RankRun run = train_on_reference(layout)[0], one = train_on_reference(on_one_rank(layout))[0];
  for (size_t step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(run.results[step].loss, one.results[step].loss, 5e-3 * one.results[step].loss) << "step " << step;
    EXPECT_NEAR(run.results[step].grad_norm, one.results[step].grad_norm, 0.05 * one.results[step].grad_norm) << "step " << step;
  }
}

// Masters that are shared out make no matrices: the weights stay in bf16, and everything is as without model.fp8_params.
TEST(Fp8Weights, StayInBf16WhereMastersAreSharedOut) {
  Layout layout = layout_of("gpt3_dp2", overlapped(fp8_gpt3()), {.dp = 2}, Precision::bf16);
  const RankRun with = train_on_reference(layout)[0];
  layout.model = in_fp8_only(layout.model);
  const RankRun asked = train_on_reference(layout)[0];
  for (size_t step = 0; step < kSteps; ++step) EXPECT_EQ(asked.results[step].loss, with.results[step].loss);
}

// FP8 copies in slots are made again for every use, from the same weights and with the same scales. With one micro-batch per rank
// the gradients are summed in the same order too.
TEST(Fp8Fsdp, HasTheBitsOfAShardedOptimizer) {
  for (const bool is_tensorwise : {false, true}) {
    Layout layout =
        layout_of("neox_dp4", overlapped(is_tensorwise ? tensorwise(fp8_neox()) : fp8_neox()), {.dp = 4}, Precision::bf16);
    layout.model.num_layers = 4;
    layout.not_evaluated = 0;
    const RankRun plain = train_on_reference(layout)[0];
    layout.model.fsdp = true;
    const RankRun sharded = train_on_reference(layout)[0];
    for (size_t step = 0; step < kSteps; ++step) EXPECT_EQ(sharded.results[step].loss, plain.results[step].loss);
  }
}

// What is saved of the scales: by name, how often, and the scale.
struct Saved {
  int times = 0;
  float scale = 0;
};

std::map<std::string, Saved> saved_scales(const Layout& layout) {
  std::map<std::string, Saved> saved;
  std::mutex mutex;
  on_ranks(layout.shape.size(), [&](World& world, RankRun&) {
    EngineFixture engine({.model = layout.model, .precision = layout.precision, .gradient_clip = 1.0}, make_reference(world),
                         Mesh::of(layout.shape, world), {layout.shape, world.rank()});
    for (int step = 0; step < kSteps; ++step)
      engine.step(batches_of(layout.model, layout.shape, world.rank(), step), 1e-2,
                  layout.model.global_batch_size * layout.model.encoder_seq_length);
    const std::lock_guard lock(mutex);
    for (const CheckpointTensor& tensor : checkpoint_tensors(*engine, CheckpointUse::save))
      if (tensor.name.starts_with("fp8."))
        ++saved[tensor.name].times, saved[tensor.name].scale = tensor.tensor.as<float>()[UpdateScales::kScale];
  });
  return saved;
}

// Each once, and those of one rank but for what was rounded differently: half of the largest value would be another scale.
TEST_P(Fp8Layouts, SaveScalesOnceAndThoseOfOneRank) {
  const Layout& layout = GetParam();
  const auto saved = saved_scales(layout), one = saved_scales(on_one_rank(layout));
  EXPECT_EQ(std::ssize(one), 2 * (kBlockLinears * layout.model.num_layers + (layout.model.fp8.lm_head ? 1 : 0)));
  ASSERT_EQ(saved.size(), one.size());
  for (const auto& [name, row] : saved) {
    EXPECT_EQ(row.times, 1) << name;
    ASSERT_TRUE(one.contains(name)) << name;
    EXPECT_NEAR(row.scale, one.at(name).scale, 0.2 * one.at(name).scale) << name;
  }
}

}  // namespace
}  // namespace trireme
