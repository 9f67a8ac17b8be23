// Binding plans against those that mpirun makes for the same machines (tests/golden/topologies), rank by rank, and the NUMA
// modes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "cli/run_program.h"
#include "launch/local/binding.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

fs::path topology_folder() { return fs::path(TRIREME_SOURCE_DIR) / "tests/golden/topologies"; }

MachineTopology described_machine(const std::string& name) {
  ::setenv("HWLOC_XMLFILE", (topology_folder() / (name + ".xml")).c_str(), 1);
  ::setenv("HWLOC_THISSYSTEM", "0", 1);
  return read_topology();
}

struct MpirunCase {
  std::string topology;
  int64_t ranks = 0;
  LaunchOptions options;
  std::vector<std::string> lines;  // "0 [BB/../..]" by rank, or "refused"
};

std::vector<MpirunCase> mpirun_cases(const fs::path& path) {
  std::vector<MpirunCase> cases;
  std::ifstream file(path);
  bool begins = true;
  for (std::string line; std::getline(file, line);) {
    if (begins) {
      std::istringstream words(line);
      std::string bind_option;
      MpirunCase& next = cases.emplace_back();
      words >> next.topology >> next.ranks >> next.options.map_by >> bind_option >> next.options.bind_to;
    } else if (!line.empty()) {
      cases.back().lines.push_back(line);
    }
    begins = line.empty();
  }
  return cases;
}

// As the lines of mpirun.txt. Bound to all that there is is not bound.
std::vector<std::string> planned_lines(const MpirunCase& one) {
  const MachineTopology machine = described_machine(one.topology);
  std::vector<RankBinding> ranks;
  try {
    ranks = plan_binding(machine, one.options, one.ranks, {}).ranks;
  } catch (const UserError&) {
    return {"refused"};
  }
  std::vector<std::string> lines;
  for (int64_t rank = 0; rank < one.ranks; ++rank) {
    const std::string text = ranks.empty() ? "" : binding_text(machine, ranks[static_cast<size_t>(rank)]);
    const std::string map = text.substr(text.find(":[") + 1);
    const bool is_bound = !ranks.empty() && map.find('.') != std::string::npos;
    lines.push_back(std::to_string(rank) + (is_bound ? " " + map : " unbound"));
  }
  return lines;
}

TEST(LocalBinding, EqualsMpirunOnEveryMachine) {
  const auto cases = mpirun_cases(topology_folder() / "mpirun.txt");
  ASSERT_EQ(cases.size(), 7U * 17U);
  for (const MpirunCase& one : cases)
    EXPECT_EQ(planned_lines(one), one.lines)
        << one.topology << " " << one.ranks << " " << one.options.map_by << " " << one.options.bind_to;
}

// The recorded text is that of the mpirun which is installed here.
TEST(LocalBinding, MpirunStillSaysWhatWasRecorded) {
  if (run_shell("mpirun --version | grep -q 'Open MPI) 4'").status != 0) SKIP_FOR(mpi) << "needs Open MPI 4";
  const TemporaryFolder folder;
  const fs::path file = folder / "mpirun.txt";
  const ProgramResult result =
      run_shell("python3 " + (topology_folder() / "record.py").string() + " " + file.string() + " 2s-4n-smt");
  ASSERT_EQ(result.status, 0) << result.output;
  auto recorded = mpirun_cases(topology_folder() / "mpirun.txt");
  std::erase_if(recorded, [](const MpirunCase& one) { return one.topology != "2s-4n-smt"; });
  const auto now = mpirun_cases(file);
  ASSERT_EQ(recorded.size(), now.size());
  for (size_t i = 0; i < now.size(); ++i) EXPECT_EQ(now[i].lines, recorded[i].lines) << now[i].options.map_by;
}

std::vector<std::vector<int>> cpus_of_plan(const std::string& topology, const LaunchOptions& options, int64_t ranks,
                                           const std::vector<int64_t>& gpus = {}) {
  std::vector<std::vector<int>> cpus;
  for (const RankBinding& binding : plan_binding(described_machine(topology), options, ranks, gpus).ranks)
    cpus.push_back(binding.cpus);
  return cpus;
}

using Cpus = std::vector<std::vector<int>>;

TEST(LocalBinding, SharesTheCoresEvenlyWithoutOptions) {
  EXPECT_EQ(cpus_of_plan("2s-2n", {}, 4), (Cpus{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(cpus_of_plan("2s-2n", {}, 3), (Cpus{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(cpus_of_plan("1s-1n-smt", {}, 2), (Cpus{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(cpus_of_plan("2s-2n", {}, 1), Cpus{}) << "one rank needs no limits";
  EXPECT_EQ(cpus_of_plan("2s-2n", {}, 9), Cpus{}) << "ranks that share cores move between them";
  EXPECT_EQ(cpus_of_plan("2s-2n", {.bind_to = "none"}, 4), Cpus{});
}

TEST(LocalBinding, TakesCoresNearTheGpuOfTheRank) {
  // GPUs 0 to 3 are below socket 0, 4 to 7 below socket 1.
  EXPECT_EQ(cpus_of_plan("2s-2n-gpus", {}, 2, {4, 0}), (Cpus{{8, 9, 10, 11, 12, 13, 14, 15}, {0, 1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(cpus_of_plan("2s-2n-gpus", {}, 3, {2, 3, 5}), (Cpus{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}));
  EXPECT_EQ(cpus_of_plan("2s-2n", {}, 2, {0, 1}), (Cpus{{0, 1, 2, 3}, {4, 5, 6, 7}})) << "where GPUs are is unknown";
}

TEST(LocalBinding, PrefersTheMemoryOfItsNumaNode) {
  const BindingPlan plan = plan_binding(described_machine("2s-4n-smt"), {.map_by = "ppr:1:numa:pe=4"}, 4, {});
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(plan.ranks[static_cast<size_t>(rank)].nodes, std::vector<int>{rank});
  EXPECT_TRUE(plan_binding(described_machine("1s-1n"), {}, 2, {}).ranks[0].nodes.empty()) << "there is only one";
}

TEST(LocalBinding, NumaModesOfTheLauncher) {
  const std::vector<int64_t> gpus = {0, 1, 4};
  const auto plan = [&](LaunchOptions options) { return cpus_of_plan("2s-2n-gpus", options, 3, gpus); };
  const std::vector<int> first = {0, 1, 2, 3, 4, 5, 6, 7}, second = {8, 9, 10, 11, 12, 13, 14, 15};
  EXPECT_EQ(plan({.numa_mode = "all"}), (Cpus{first, first, second}));
  EXPECT_EQ(plan({.numa_mode = "single"}), (Cpus{{0, 1}, {0, 1}, {8, 9}}));
  EXPECT_EQ(plan({.numa_mode = "single_unique"}), (Cpus{{0, 1}, {2, 3}, {8, 9}}));
  EXPECT_EQ(plan({.numa_mode = "unique_contiguous"}), (Cpus{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}}));
  EXPECT_EQ(plan({.numa_mode = "unique_interleaved"}), (Cpus{{0, 1, 4, 5}, {2, 3, 6, 7}, {8, 9, 10, 11}}));
  EXPECT_EQ(plan({.numa_mode = "unique_contiguous", .numa_balanced = false}), (Cpus{{0, 1, 2, 3}, {4, 5, 6, 7}, second}));
  EXPECT_EQ(plan({.numa_mode = "unique_contiguous", .numa_cores = "single_logical"}), (Cpus{{0, 2}, {4, 6}, {8, 10}}));
  EXPECT_EQ(plan({.numa_mode = "unique_contiguous", .numa_max_cores = 1}), (Cpus{{0, 1}, {2, 3}, {8, 9}}));
}

TEST(LocalBinding, NumaScopeChoosesNodeOrSocket) {
  const auto plan = [](const std::string& scope) { return cpus_of_plan("2s-8n", {.numa_mode = "all", .numa_scope = scope}, 4); };
  EXPECT_EQ(plan("node"), (Cpus{{0, 1}, {4, 5}, {8, 9}, {12, 13}}));
  EXPECT_EQ(plan("socket")[3], (std::vector<int>{8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(LocalBinding, SaysWhyAPlanCannotBeMade) {
  const auto message = [](const std::string& topology, const LaunchOptions& options, int64_t ranks) {
    return message_of<UserError>([&] { plan_binding(described_machine(topology), options, ranks, {}); });
  };
  EXPECT_EQ(message("2s-2n", {.map_by = "ppr:4:numa:pe=2"}, 8),
            "--map-by ppr:4:numa:pe=2 needs 8 cores on every NUMA node, and there are 4; use fewer ranks or --bind-to none");
  EXPECT_EQ(message("2s-2n", {.map_by = "ppr:2:numa"}, 5),
            "--map-by ppr:2:numa places 4 ranks on 2 NUMA nodes, and --ranks is 5");
  EXPECT_TRUE(contains(message("2s-2n", {.bind_to = "core"}, 9), "9 ranks and 8 cores"));
  EXPECT_TRUE(contains(message("2s-2n", {.numa_mode = "unique_contiguous", .numa_min_cores = 3}, 4), "each needs 3"));
  EXPECT_TRUE(contains(message("2s-2n", {.bind_to = "cores"}, 2), "--bind-to cores: use core, hwthread or none"));
  EXPECT_TRUE(contains(message("2s-2n", {.numa_mode = "uniq"}, 2), "--numa-mode uniq: use all, "));
  EXPECT_TRUE(contains(message("2s-2n", {.numa_mode = "all", .numa_scope = "rack"}, 2), "--numa-scope rack: use node or socket"));
  EXPECT_TRUE(contains(message("2s-2n", {.map_by = "ppr:2:numa", .numa_mode = "all"}, 2), "both choose cores"));
  for (const char* wrong : {"numa", "ppr:numa", "ppr:0:numa", "ppr:2:rack", "ppr:2:numa:pe=", "ppr:2:numa:pe=0",
                            "ppr:2:numa:pe=1:x", "ppr:-1:numa", "ppr:2:numa:", "ppr:99999999999999999999:numa"})
    EXPECT_TRUE(contains(message("2s-2n", {.map_by = wrong}, 2), "use ppr:N:UNIT")) << wrong;
}

TEST(LocalBinding, ReportsInTheNotationOfMpirun) {
  const MachineTopology machine = described_machine("2s-4n-smt");
  const auto text = [&](std::vector<int> cpus) { return binding_text(machine, {.cpus = std::move(cpus), .nodes = {}}); };
  EXPECT_EQ(text({2, 3, 4}),
            "bound to socket 0[core 1[hwt 0-1]], socket 0[core 2[hwt 0]]:[../BB/B./../../../../..][../../../../../../../..]");
  EXPECT_EQ(text({}), "is not bound");
}

}  // namespace
}  // namespace trireme
