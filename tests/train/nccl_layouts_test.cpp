// The pairwise cover of layouts through nccl_group.cpp, with NCCL stood in for: ranks are processes, with a device each that
// works late. Each gives the losses of one rank and executes what was planned for it. Those of up to eight ranks run always, for
// more steps and with up to sixteen where TRIREME_ALL_LAYOUTS is set, as make test-layouts does.
#include "support/nccl_layouts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "backend/reference/reference_backend.h"
#include "support/fp8_layouts.h"
#include "support/layout_cover.h"
#include "support/skip.h"

namespace trireme {
namespace {

bool runs_all() { return std::getenv("TRIREME_ALL_LAYOUTS") != nullptr; }
std::string name_of(const testing::TestParamInfo<Layout>& test) { return test.param.name; }

// Those with several ranks.
std::vector<Layout> cover() {
  std::vector<Layout> all;
  for (const Choices& choices : pairwise_cover())
    if (shape_of(choices).size() > 1) all.push_back(layout_of(choices));
  return all;
}
// Of those with up to eight ranks every fourth, or the others; and those with more.
enum class Part { quick, slow, large };
std::vector<Layout> cover(Part part) {
  std::vector<Layout> all = cover();
  std::erase_if(all, [&, small = 0](const Layout& layout) mutable {
    if (layout.shape.size() > 8) return part != Part::large;
    return part != (small++ % 4 == 0 ? Part::quick : Part::slow);
  });
  return all;
}

class NcclLayouts : public testing::TestWithParam<Layout> {
 protected:
  static void matches_one_rank_and_the_plan() {
    const Layout& layout = GetParam();
    const int steps = runs_all() ? steps_for(layout) : std::min(steps_for(layout), 3);
    const std::vector<RankRun> runs = train_over_nccl(layout, steps, [] { return std::make_unique<CpuBackend>(1); });
    ASSERT_FALSE(HasFailure());
    expect_same_as_one_rank(layout, runs, train(on_one_rank(layout), steps)[0]);
  }
};
INSTANTIATE_TEST_SUITE_P(Quick, NcclLayouts, testing::ValuesIn(cover(Part::quick)), name_of);
INSTANTIATE_TEST_SUITE_P(Slow, NcclLayouts, testing::ValuesIn(cover(Part::slow)), name_of);
TEST_P(NcclLayouts, MatchOneRankAndThePlan) { matches_one_rank_and_the_plan(); }

class NcclLayoutsOfManyRanks : public NcclLayouts {};
INSTANTIATE_TEST_SUITE_P(Cover, NcclLayoutsOfManyRanks, testing::ValuesIn(cover(Part::large)), name_of);
TEST_P(NcclLayoutsOfManyRanks, MatchOneRankAndThePlan) {
  if (!runs_all()) SKIP_FOR(layouts) << "make test-layouts runs all layouts";
  matches_one_rank_and_the_plan();
}

// In FP8 as in fp8_layouts_test.cpp, which compares host memory with one rank more closely.
class NcclFp8Layouts : public testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Quick, NcclFp8Layouts, testing::ValuesIn(quick_fp8_layouts()), name_of);
INSTANTIATE_TEST_SUITE_P(Slow, NcclFp8Layouts, testing::ValuesIn(slow_fp8_layouts()), name_of);

std::vector<RankRun> train_on_reference(const Layout& layout, int steps) {
  return on_ranks(layout.shape.size(), [&](World& world, RankRun& run) {
    ReferenceBackend reference;
    reference.set_streams(world.streams());
    run_engine(layout, steps, world.rank(), std::make_unique<TracedBackend>(reference, run.executed),
               traced(Mesh::of(layout.shape, world), run.executed), run);
  });
}

// Two ranks add in the same order however they communicate, so losses are those of host memory to the last bit.
TEST_P(NcclFp8Layouts, HaveTheLossesOfHostMemory) {
  const Layout& layout = GetParam();
  constexpr int kSteps = 3;  // scaled by itself, by the first step, by two
  const std::vector<RankRun> runs = train_over_nccl(layout, kSteps, [] { return std::make_unique<ReferenceBackend>(); });
  ASSERT_FALSE(HasFailure());
  const RankRun host = train_on_reference(layout, kSteps)[0];
  for (const RankRun& run : runs) {
    EXPECT_EQ(run.evaluated, host.evaluated);
    ASSERT_EQ(run.results.size(), host.results.size());
    for (size_t step = 0; step < kSteps; ++step) {
      EXPECT_EQ(run.results[step].loss, host.results[step].loss) << "step " << step;
      EXPECT_EQ(run.results[step].grad_norm, host.results[step].grad_norm) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace trireme
