// The timeline of --trace-ops: one file for all ranks, in which what they do together is at the same time.
#include <cmath>
#include <map>

#include "cli/mpi_run.h"

namespace trireme {
namespace {

using nlohmann::json;

struct Slice {
  double begin = 0, end = 0;  // microseconds
};
// By rank, in their order, those with one name.
using Slices = std::map<int, std::vector<Slice>>;

class TraceFile : public MpiRun {
 protected:
  json trace() const { return json::parse(read_file(folder_ / "run/trace.json", 1 << 26)); }

  Slices slices_of(const std::string& name) const {
    Slices slices;
    const json all = trace();
    for (const json& event : all.at("traceEvents"))
      if (event.at("ph") == "X" && event.at("name") == name)
        slices[event.at("pid")].push_back({event.at("ts"), event.at("ts").get<double>() + event.at("dur").get<double>()});
    return slices;
  }

  // No rank leaves a collective before all have entered it.
  static void expect_overlap(const std::vector<Slice>& one, const std::vector<Slice>& other, double slack = 0) {
    ASSERT_EQ(one.size(), other.size());
    ASSERT_FALSE(one.empty());
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_LE(std::max(one[i].begin, other[i].begin), std::min(one[i].end, other[i].end) + slack) << "call " << i;
  }
};

TEST_F(TraceFile, HasTheCollectivesOfTwoRanksAtTheSameTime) {
  const auto result = run_shell(mpirun(2, train("run", "--trace-ops")));
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "run/trace.json (open it in ui.perfetto.dev"));
  Slices slices = slices_of("dp_cp all_reduce");
  ASSERT_EQ(slices.size(), 2u);
  expect_overlap(slices[0], slices[1]);
}

TEST_F(TraceFile, HasAProcessForEachOfFourRanksAndAThreadForEachStream) {
  const auto result = run_shell(mpirun(4, train("run", "model.tensor_model_parallel_size=2 --trace-ops")));
  ASSERT_EQ(result.status, 0) << result.output;
  Slices slices = slices_of("tp all_reduce");
  ASSERT_EQ(slices.size(), 4u);
  expect_overlap(slices[0], slices[1]);
  expect_overlap(slices[2], slices[3]);
  std::map<int, std::vector<std::string>> threads;
  const json all = trace();
  for (const json& event : all.at("traceEvents"))
    if (event.at("name") == "thread_name") threads[event.at("pid")].push_back(event.at("args").at("name"));
  for (int rank = 0; rank < 4; ++rank)
    for (const char* stream : {"compute", "tensor parallel", "data parallel"})
      EXPECT_TRUE(std::ranges::find(threads[rank], stream) != threads[rank].end()) << "rank " << rank << ", " << stream;
}

// Rank 1 has a clock of its own, as on another machine: it started 5000 s earlier.
TEST_F(TraceFile, HasOneClockWhereThoseOfTheRanksDiffer) {
  const std::string shifted = "unshare --time --fork --monotonic 5000";
  if (run_shell(shifted + " true").status != 0) SKIP_FOR(machine) << "no right to make a time namespace";
  const int port = TcpListener().port();
  const auto rank = [&](int number, const std::string& wrapper) {
    return fmt::format("env RANK={} WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT={} {} {} {}", number, port, wrapper,
                       TRIREME_BINARY, train("run", "--trace-ops"));
  };
  const auto result = run_shell(fmt::format("{} & {}; status=$?; wait; exit $status", rank(1, shifted), rank(0, "")));
  ASSERT_EQ(result.status, 0) << result.output;
  Slices slices = slices_of("dp_cp all_reduce");
  ASSERT_EQ(slices.size(), 2u);
  constexpr double kSecond = 1e6;  // of error: the answers to questions about the time may come late on a busy machine
  expect_overlap(slices[0], slices[1], kSecond);
}

}  // namespace
}  // namespace trireme
