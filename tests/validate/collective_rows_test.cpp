// Collectives as nccl-tests measures them.
#include <gtest/gtest.h>

#include <sstream>

#include "backend/cpu/cpu_backend.h"
#include "comm/forwarding_communicator.h"
#include "comm/probe/collective_test.h"
#include "validate/validate_ranks.h"

namespace trireme {
namespace {

std::vector<CollectiveRow> rows_of(int ranks, const CollectiveRequest& request) {
  std::vector<CollectiveRow> rows;
  on_validate_ranks(ranks, [&](World& world, const std::unique_ptr<Communicator>& group) {
    CpuBackend cpu(1);
    cpu.set_streams(world.streams());
    RankGroup here{cpu, *group, world.control()};
    std::vector<CollectiveRow> own = run_collectives(here, request, {});
    if (world.rank() == 0) rows = std::move(own);
  });
  return rows;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

TEST(Collectives, AreRightForEveryNumberOfRanks) {
  for (const int ranks : {2, 3, 4}) {
    const auto rows = rows_of(ranks, {.min_bytes = 8, .max_bytes = 4096, .seconds_per_row = 0});
    EXPECT_GE(rows.size(), 6 * 8u) << "six collectives, up to 4096 bytes";
    for (const CollectiveRow& row : rows) {
      const std::string name = fmt::format("{} of {} bytes over {} ranks", row.kind.name, row.bytes, ranks);
      EXPECT_TRUE(row.out_of_place || row.in_place) << name;
      for (const auto* side : {&row.out_of_place, &row.in_place})
        if (side->has_value()) {
          EXPECT_EQ((*side)->wrong, 0) << name;
        }
      EXPECT_TRUE(row.wrong_ranks.empty()) << name;
      EXPECT_EQ(row.bytes, 4 * row.count * (row.kind.is_cut ? ranks : 1)) << name;
    }
  }
}

// Rank 1 changes an element of what it is sent by broadcast.
class ChangingGroup final : public ForwardingCommunicator {
 public:
  ChangingGroup(std::unique_ptr<Communicator> inner, Progress& progress)
      : ForwardingCommunicator(std::move(inner)), progress_(progress) {}

 private:
  void after(const Call& call) override {
    if (rank() != 1 || std::string_view(call.name) != "broadcast") return;
    progress_.synchronize({"broadcast_done", call.stream, progress_.enqueued(call.stream)});
    call.to.span<float>().back() += 1;
  }
  Progress& progress_;
};

TEST(Collectives, AWrongRankIsNamed) {
  std::vector<CollectiveRow> rows;
  on_validate_ranks(3, [&](World& world, std::unique_ptr<Communicator> group) {
    CpuBackend cpu(1);
    cpu.set_streams(world.streams());
    ChangingGroup changing(std::move(group), world.progress());
    RankGroup here{cpu, changing, world.control()};
    std::vector<CollectiveRow> own = run_collectives(here, {.max_bytes = 1024, .seconds_per_row = 0}, {});
    if (world.rank() == 0) rows = std::move(own);
  });
  for (const CollectiveRow& row : rows) {
    const bool is_wrong = row.kind.collective == Collective::broadcast;
    EXPECT_EQ(row.wrong_ranks, is_wrong ? std::vector<int>{1} : std::vector<int>{}) << row.kind.name;
    if (is_wrong) {
      EXPECT_EQ(row.in_place->wrong, 1);
    }
  }
}

TEST(Collectives, BusBandwidthFollowsNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::reduce_scatter, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::alltoall, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::broadcast, 8), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::sendrecv, 8), 1);
}

// Tools split these lines at blanks: thirteen columns, out-of-place busbw in the eighth.
TEST(Collectives, LinesHaveTheColumnsOfNcclTests) {
  const CollectiveRow row{.kind = collective_kinds()[1],
                          .bytes = 8589934592,
                          .count = 1073741824,
                          .out_of_place = CollectiveSide{.seconds = 0.04, .wrong = 0},
                          .in_place = CollectiveSide{.seconds = 0.05, .wrong = 2},
                          .wrong_ranks = {1}};
  const auto words = words_of(line_of(row, 2));
  EXPECT_EQ(words, (std::vector<std::string>{"8589934592", "1073741824", "float", "none", "-1", "40000", "214.75", "107.37", "0",
                                             "50000", "171.80", "85.90", "2"}));
  EXPECT_EQ(closing_lines(std::span(&row, 1), 2), "# Out of bounds values : 2 FAILED\n# Avg bus bandwidth    : 96.6368 \n#\n");
  const std::string heading = collective_heading(row.kind, 2);
  EXPECT_NE(heading.find("size         count      type   redop    root     time   algbw   busbw #wrong"), std::string::npos);
}

TEST(Collectives, AMissingSideIsNotAvailable) {
  const CollectiveRow row{.kind = collective_kinds()[0],
                          .bytes = 8,
                          .count = 2,
                          .out_of_place = {},
                          .in_place = CollectiveSide{.seconds = 1e-6, .wrong = 0},
                          .wrong_ranks = {}};
  const auto words = words_of(line_of(row, 2));
  ASSERT_EQ(words.size(), 13u);
  EXPECT_EQ(words[5], "N/A");
  EXPECT_EQ(words[9], "1.00");
}

}  // namespace
}  // namespace trireme
