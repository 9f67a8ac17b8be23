// The whole validation, with ranks as threads.
#include "validate/validation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "validate/validate_ranks.h"
#include "validate/wrong_backend.h"

namespace trireme {
namespace {

// The report of ranks of which one has another backend, made by `wrap`.
template <class Wrap>
ValidationReport report_of(int ranks, int odd_rank, const ValidationOptions& options, const Wrap& wrap) {
  ValidationReport report;
  on_validate_ranks(ranks, [&](World& world, const std::unique_ptr<Communicator>& group) {
    CpuBackend cpu(1);
    cpu.set_streams(world.streams());
    const std::unique_ptr<Backend> odd = wrap(cpu);
    Backend& own = world.rank() == odd_rank ? *odd : cpu;
    RankGroup here{own, *group, world.control()};
    ValidationReport mine = run_validation(here, options);
    if (world.rank() == 0) report = std::move(mine);
  });
  return report;
}

const ValidationOptions kTiny{.depth = Depth::quick, .max_bytes = 4096};

bool has_check(const ValidationReport& report, const std::string& check) {
  return std::ranges::any_of(
      report.findings, [&](const Finding& finding) { return finding.check == check && finding.kind == FindingKind::failure; });
}

TEST(ValidationSlow, NamesTheRankThatComputesWrong) {
  const ValidationReport report = report_of(4, 2, kTiny, [](Backend& cpu) { return std::make_unique<WrongGemm>(cpu); });
  EXPECT_FALSE(report.is_good());
  for (const RankResult& rank : report.ranks) EXPECT_EQ(rank.errors.gemm > 0, rank.rank == 2) << rank.rank;
  std::vector<std::string> named;
  for (const Finding& finding : report.findings)
    if (finding.check == "wrong_results") named.push_back(finding.what);
  EXPECT_EQ(named, std::vector<std::string>{"rank 2 (CPU): rows of an exact GEMM"});
}

TEST(ValidationSlow, NamesTheSlowRank) {
  const ValidationReport report = report_of(4, 1, kTiny, [](Backend& cpu) { return std::make_unique<SlowGemm>(cpu); });
  EXPECT_TRUE(has_check(report, "compute"));
  for (const RankResult& rank : report.ranks) EXPECT_EQ(rank.is_slow, rank.rank == 1) << rank.rank;
}

TEST(ValidationSlow, OfInventoryOnlyMeasuresNothing) {
  ValidationOptions options = kTiny;
  options.has_speeds = false;
  const ValidationReport report = report_of(2, -1, options, [](Backend& cpu) { return std::make_unique<WrongGemm>(cpu); });
  EXPECT_TRUE(report.ranks.empty() && report.collectives.empty() && report.pairs.empty());
  ASSERT_EQ(report.nodes.size(), 1u);
  EXPECT_TRUE(report.nodes.front().inventory.facts.contains("cores"));
  EXPECT_EQ(report.nodes.front().ranks, (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace trireme
