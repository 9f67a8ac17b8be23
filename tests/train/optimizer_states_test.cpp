// Masters and moments in host memory, and moments in bf16: the same bits as on the device, the memory that was planned, and
// checkpoints that any of them continues.
#include <gtest/gtest.h>

#include "support/fake_device.h"
#include "support/layouts.h"
#include "support/temporary_folder.h"
#include "train/engine_checkpoint.h"

namespace trireme {
namespace {

constexpr int kSteps = 4;

Layout in_host_memory(Layout layout) {
  layout.model.optim.optimizer_cpu_offload = true;
  return layout;
}

ModelSettings distributed(ModelSettings model) {
  model.optim.name = Optimizer::distributed_fused_adam;
  model.optim.overlap_grad_sync = model.optim.overlap_param_sync = true;
  return model;
}

ModelSettings sharded(ModelSettings model) {
  model.fsdp = true;
  return model;
}

ModelSettings with_bf16_moments(ModelSettings model) {
  model.optim.exp_avg_dtype = model.optim.exp_avg_sq_dtype = MomentType::bf16;
  return model;
}

ModelSettings with_small_loss_scale(ModelSettings model) {
  model.loss_scale.init_scale = 4096;  // no step is skipped
  return model;
}

std::vector<Layout> layouts() {
  return {layout_of("one_rank", small_gpt3(), {}),
          layout_of("one_rank_bf16", small_gpt3(), {}, Precision::bf16),
          layout_of("one_rank_fp16", with_small_loss_scale(small_gpt3()), {}, Precision::f16),
          layout_of("dp2_bf16_moments", with_bf16_moments(small_llama()), {.dp = 2}, Precision::bf16),
          layout_of("dp2_sharded", distributed(small_gpt3()), {.dp = 2}, Precision::bf16),
          layout_of("dp2_fsdp", sharded(small_neox()), {.dp = 2}, Precision::bf16),
          layout_of("dp2_fsdp_f32", sharded(distributed(small_gpt3())), {.dp = 2}),
          layout_of("tp2_pp2", small_neox(), {.tp = 2, .pp = 2}, Precision::bf16)};
}

void expect_same_bits(const RankRun& got, const RankRun& expected) {
  ASSERT_EQ(got.results.size(), expected.results.size());
  for (size_t step = 0; step < got.results.size(); ++step) {
    EXPECT_EQ(got.results[step].loss, expected.results[step].loss) << "step " << step;
    EXPECT_EQ(got.results[step].grad_norm, expected.results[step].grad_norm) << "step " << step;
  }
  EXPECT_EQ(got.evaluated, expected.evaluated);
}

class HostStatesTest : public testing::TestWithParam<Layout> {};

TEST_P(HostStatesTest, TrainsWithTheSameBitsAsPlanned) {
  const Layout& layout = GetParam();
  const std::vector<RankRun> plain = train(layout, kSteps), offloaded = train(in_host_memory(layout), kSteps);
  for (size_t rank = 0; rank < plain.size(); ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    expect_same_bits(offloaded[rank], plain[rank]);
    expect_as_planned(offloaded[rank]);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, HostStatesTest, testing::ValuesIn(layouts()), [](const auto& test) { return test.param.name; });

RankRun train_on(std::unique_ptr<Backend> backend, const Layout& layout) {
  RankRun run;
  run_engine(layout, kSteps, 0, std::make_unique<TracedBackend>(*backend, run.executed), Mesh::solo(), run);
  return run;
}

// Copies that are late at random on a stream of their own: an event that is missing gives other bits.
TEST(HostStates, CopiesOnAStreamOfTheirOwnAreInOrder) {
  Layout layout = layout_of("one_rank", small_gpt3(), {}, Precision::bf16);
  layout.model.num_layers = 4;
  const RankRun expected = train_on(std::make_unique<CpuBackend>(1), layout);
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    auto device = std::make_unique<FakeDevice>(seed);
    Backend& kept = *device;
    RankRun run;
    run_engine(in_host_memory(layout), kSteps, 0, std::make_unique<TracedBackend>(kept, run.executed), Mesh::solo(), run);
    expect_same_bits(run, expected);
  }
}

// Trains two steps from a checkpoint of an engine with `from`, after which `to` goes on.
std::vector<double> continued(const ModelSettings& from, const ModelSettings& to, Precision precision) {
  const TemporaryFolder folder;
  const auto settings = [&](const ModelSettings& model) {
    return EngineSettings{.model = model, .precision = precision, .gradient_clip = 1.0};
  };
  const auto step = [&](EngineFixture& engine, int number) { return engine.step(batches_of(from, {}, 0, number), 1e-2).loss; };
  EngineFixture first(settings(from), std::make_unique<CpuBackend>(1));
  for (int i = 0; i < 2; ++i) step(first, i);
  CheckpointWriter writer(folder.path(), checkpoint_tensors(*first, CheckpointUse::save), {});
  writer.snapshot({.step = 2});
  writer.wait();
  EngineFixture second(settings(to), std::make_unique<CpuBackend>(1));
  load_checkpoint(open_checkpoint(folder / checkpoint_name(2)), checkpoint_tensors(*second, CheckpointUse::load));
  second->restore_updates(first->updates());
  std::vector<double> losses;
  for (int i = 2; i < 5; ++i) losses.push_back(step(second, i));
  return losses;
}

TEST(HostStates, ContinueFromTheDeviceAndBack) {
  const ModelSettings plain = small_gpt3();
  ModelSettings offloaded = plain;
  offloaded.optim.optimizer_cpu_offload = true;
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const std::vector<double> expected = continued(plain, plain, precision);
    EXPECT_EQ(continued(plain, offloaded, precision), expected);
    EXPECT_EQ(continued(offloaded, plain, precision), expected);
    EXPECT_EQ(continued(offloaded, offloaded, precision), expected);
  }
}

// Rounding moments to 8 bits changes what Adam does by a share of 2^-8 of each step; losses follow.
TEST(Bf16Moments, FollowTheLossesOfF32) {
  const Layout plain = layout_of("plain", small_gpt3(), {});
  Layout rounded = plain;
  rounded.model = with_bf16_moments(rounded.model);
  const RankRun expected = train(plain, kSteps)[0], got = train(rounded, kSteps)[0];
  EXPECT_EQ(got.results[0].loss, expected.results[0].loss);
  EXPECT_NE(got.results.back().loss, expected.results.back().loss);
  for (size_t step = 0; step < got.results.size(); ++step)
    EXPECT_NEAR(got.results[step].loss, expected.results[step].loss, 1e-2 * expected.results[step].loss);
}

TEST(Bf16Moments, ContinueRunsWithOthersAndBack) {
  const ModelSettings plain = small_gpt3(), rounded = with_bf16_moments(plain);
  const std::vector<double> expected = continued(plain, plain, Precision::f32);
  for (const auto& losses : {continued(plain, rounded, Precision::f32), continued(rounded, plain, Precision::f32)})
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-2 * expected[i]);
}

TEST(Bf16Moments, AreStoredAsTheyAre) {
  EngineFixture engine({.model = with_bf16_moments(small_gpt3()), .precision = Precision::f32, .gradient_clip = 1.0},
                       std::make_unique<CpuBackend>(1));
  int moments = 0;
  for (const CheckpointTensor& tensor : checkpoint_tensors(*engine, CheckpointUse::save)) {
    const bool is_moment = tensor.name.starts_with("first_moment.") || tensor.name.starts_with("second_moment.");
    EXPECT_EQ(tensor.tensor.dtype, is_moment ? DType::bf16 : DType::f32) << tensor.name;
    moments += is_moment;
  }
  EXPECT_GT(moments, 0);
}

}  // namespace
}  // namespace trireme
