// The pairwise cover of layouts through nccl_group.cpp, with NCCL stood in for: ranks are processes, with a device each that
// works late. Each gives the losses of one rank and executes what was planned for it. Some run always, all of them with
// TRIREME_ALL_LAYOUTS set, as make test-layouts does.
#include "support/nccl_layouts.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/reference/reference_backend.h"
#include "support/fp8_layouts.h"
#include "support/layout_cover.h"
#include "support/skip.h"

namespace trireme {
namespace {

bool runs_all() { return std::getenv("TRIREME_ALL_LAYOUTS") != nullptr; }
std::string name_of(const testing::TestParamInfo<Layout>& test) { return test.param.name; }

// Those with several ranks, the smaller ones first.
const std::vector<Layout>& cover() {
  static const std::vector<Layout> layouts = [] {
    std::vector<Layout> all;
    for (const Choices& choices : pairwise_cover())
      if (shape_of(choices).size() > 1) all.push_back(layout_of(choices));
    std::ranges::stable_sort(all, {}, [](const Layout& layout) { return layout.shape.size(); });
    return all;
  }();
  return layouts;
}

class NcclLayouts : public testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Cover, NcclLayouts, testing::ValuesIn(cover()), name_of);

// Of up to eight ranks every fourth.
bool runs_always(const Layout& layout) {
  const auto at = std::ranges::find(cover(), layout.name, &Layout::name) - cover().begin();
  return at % 4 == 0 && layout.shape.size() <= 8;
}

TEST_P(NcclLayouts, MatchOneRankAndThePlan) {
  const Layout& layout = GetParam();
  if (!runs_all() && !runs_always(layout)) SKIP_FOR(layouts) << "make test-layouts runs all layouts";
  const int steps = runs_all() ? 5 : 3;
  const std::vector<RankRun> runs = train_over_nccl(layout, steps, [] { return std::make_unique<CpuBackend>(1); });
  ASSERT_FALSE(HasFailure());
  expect_same_as_one_rank(layout, runs, train(on_one_rank(layout), steps)[0]);
}

// In FP8 as in fp8_layouts_test.cpp, which compares host memory with one rank more closely.
class NcclFp8Layouts : public testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Quick, NcclFp8Layouts, testing::ValuesIn(quick_fp8_layouts()), name_of);
INSTANTIATE_TEST_SUITE_P(Cover, NcclFp8Layouts, testing::ValuesIn(slow_fp8_layouts()), name_of);

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
  const bool is_quick =
      std::string_view(testing::UnitTest::GetInstance()->current_test_info()->test_suite_name()).starts_with("Quick");
  if (!runs_all() && !is_quick) SKIP_FOR(layouts) << "make test-layouts runs all layouts";
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
