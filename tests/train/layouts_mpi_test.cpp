// Layouts over MPI: each test starts this program again under mpirun, and there every rank compares itself with one rank. A few
// run always, all of the cover with TRIREME_ALL_LAYOUTS set, as make test-layouts does.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "support/layout_cover.h"
#include "support/skip.h"

namespace trireme {
namespace {

bool is_under_mpirun() { return std::getenv("OMPI_COMM_WORLD_RANK") != nullptr; }

// How this program is started by mpirun; empty where there is none. Open MPI leaves memory behind, and unloads the code that
// took it, so that a sanitizer cannot tell it from ours: layouts_test looks for leaks of ours. Locks of its own are left to it.
std::string mpirun_command(int ranks, const std::string& test) {
  if (std::system("mpirun --version > /dev/null 2>&1") != 0) return {};
  return fmt::format("ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 TSAN_OPTIONS='suppressions=" TRIREME_SOURCE_DIR
                     "/tests/support/openmpi.tsan' OMPI_ALLOW_RUN_AS_ROOT=1 "
                     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n {} {} --gtest_filter={} > /dev/null",
                     ranks, std::filesystem::read_symlink("/proc/self/exe").string(), test);
}

void compare_over_mpi(const Layout& layout) {
  if (!is_under_mpirun()) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    const std::string command = mpirun_command(layout.shape.size(), fmt::format("{}.{}", test->test_suite_name(), test->name()));
    if (command.empty()) SKIP_FOR(mpi) << "there is no mpirun here";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return;
  }
  const RankRun one = train(on_one_rank(layout), steps_for(layout))[0];
  World world = World::find();
  std::vector<RankRun> runs(1);
  run_rank(layout, steps_for(layout), world, runs[0]);
  expect_same_as_one_rank(layout, runs, one);
  expect_as_planned(runs[0]);
}

TEST(LayoutsOverMpiSlow, TensorAndPipeline) {
  ModelSettings model = small_gpt3();
  model.sequence_parallel = true;
  compare_over_mpi(layout_of("tp2_sp_pp2", model, {.tp = 2, .pp = 2}));
}

TEST(LayoutsOverMpiSlow, InterleavedAndData) {
  ModelSettings model = small_llama();
  model.num_layers = 4;
  model.virtual_pipeline_model_parallel_size = 2;
  model.optim.name = Optimizer::distributed_fused_adam;
  model.optim.overlap_grad_sync = model.optim.overlap_param_sync = model.overlap_p2p_comm = true;
  compare_over_mpi(layout_of("pp2_vp2_dp2", model, {.dp = 2, .pp = 2}));
}

TEST(LayoutsOverMpiSlow, Context) { compare_over_mpi(layout_of("cp2", small_neox(), {.cp = 2})); }

std::vector<Layout> cover() {
  std::vector<Layout> all;
  for (const Choices& choices : pairwise_cover()) all.push_back(layout_of(choices));
  return all;
}

class CoverOverMpi : public testing::TestWithParam<Layout> {};

TEST_P(CoverOverMpi, MatchesOneRankAndThePlan) {
  if (!is_under_mpirun() && std::getenv("TRIREME_ALL_LAYOUTS") == nullptr)
    SKIP_FOR(layouts) << "make test-layouts runs all layouts";
  compare_over_mpi(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Layouts, CoverOverMpi, testing::ValuesIn(cover()), [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace trireme
