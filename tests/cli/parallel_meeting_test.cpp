// Ranks that are started wrongly: with different recipes, data or options, alone, or with an environment that contradicts itself.
// What is wrong is said in one line, and nobody waits longer than trainer.rank_timeout.
#include "cli/mpi_run.h"
#include "support/skip.h"

namespace trireme {
namespace {

class ParallelMeeting : public MpiRun {
 protected:
  void SetUp() override {}  // without mpirun too

  // The environment of a process that is told who it is.
  static std::string rank_of(int rank, int size, int port) {
    return fmt::format("RANK={} WORLD_SIZE={} MASTER_ADDR=127.0.0.1 MASTER_PORT={}", rank, size, port);
  }

  // Two commands at the same time; their output, with a line "status 0 2" for the status of each.
  static std::string run_both(const std::string& first, const std::string& second) {
    return run_shell(fmt::format("sh -c '{} & a=$!; {} & b=$!; wait $a; sa=$?; wait $b; echo status $sa $?'", first, second))
        .output;
  }

  std::string small(const std::string& more) const { return train("run", "trainer.max_steps=2 trainer.rank_timeout=60 " + more); }
};

using ParallelMeetingSlow = ParallelMeeting;

TEST_F(ParallelMeeting, RanksThatDifferAreNamedWithKeyAndValues) {
  const std::pair<const char*, const char*> differences[] = {
      {"model.seed=5", "model.seed=5 (rank 0: 1234)"},
      {"model.optim.lr=0.001", "model.optim.lr=0.001 (rank 0: 0.003)"},
      {"model.hidden_dropout=0.2", "model.hidden_dropout=0.2 (rank 0: 0.1)"},
      {"trainer.max_steps=3", "trainer.max_steps=3 (rank 0: 2)"},
      {"model.tensor_model_parallel_size=2", "model.tensor_model_parallel_size=2 (rank 0: 1)"},
      {"model.num_layers=4", "model.num_layers=4 (rank 0: 2)"},
      {"--dry-run", "--dry-run=given (rank 0: not given)"},
      {"--resume", "--resume=given (rank 0: not given)"}};
  for (const auto& [change, text] : differences) {
    const int port = TcpListener(0, Reach::machine).port();
    const std::string output = run_both(fmt::format("{} {} {}", rank_of(0, 2, port), TRIREME_BINARY, small("")),
                                        fmt::format("{} {} {}", rank_of(1, 2, port), TRIREME_BINARY, small(change)));
    EXPECT_TRUE(contains(output, "differs from rank 0: " + std::string(text)));
    EXPECT_TRUE(contains(output, "status 2 2"));
    EXPECT_EQ(complaints(output), 1) << output;
  }
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "nothing may be built";
}

TEST_F(ParallelMeetingSlow, RanksThatDifferAreNamedOverMpiToo) {
  if (run_shell("command -v mpirun").status != 0) SKIP_FOR(mpi) << "mpirun is not installed";
  const auto result = run_shell(fmt::format("mpirun -q --allow-run-as-root --oversubscribe -n 1 {} {} : -n 1 {} {}",
                                            TRIREME_BINARY, small("model.seed=5"), TRIREME_BINARY, small("model.seed=6")));
  EXPECT_EQ(result.status, 2) << result.output;
  EXPECT_TRUE(contains(result.output, "differs from rank 0: model.seed=6 (rank 0: 5)"));
  EXPECT_EQ(complaints(result.output), 1) << result.output;
}

// Each machine has its own file under the same name.
TEST_F(ParallelMeeting, DataThatDiffersIsNamed) {
  folder_.write("a/here.txt", std::string(20'000, 'a'));
  folder_.write("b/here.txt", std::string(20'000, 'b'));
  const int port = TcpListener(0, Reach::machine).port();
  const auto command = [&](int rank) {
    return fmt::format("cd {} && {} {} {}", (folder_ / (rank == 0 ? "a" : "b")).string(), rank_of(rank, 2, port), TRIREME_BINARY,
                       small("model.data.data_prefix=[here.txt]"));
  };
  const std::string output = run_both("(" + command(0) + ")", "(" + command(1) + ")");
  EXPECT_TRUE(contains(output, "differs from rank 0: data here.txt=1 file, 20000 bytes, checksum "));
  EXPECT_TRUE(contains(output, "status 2 2"));
}

// A recipe that only one rank cannot read is that rank's mistake.
TEST_F(ParallelMeeting, AMistakeOfOneRankEndsAll) {
  const int port = TcpListener(0, Reach::machine).port();
  const std::string output = run_both(fmt::format("{} {} {}", rank_of(0, 2, port), TRIREME_BINARY, small("")),
                                      fmt::format("{} {} {}", rank_of(1, 2, port), TRIREME_BINARY, small("modl.x=1")));
  EXPECT_TRUE(contains(output, "trireme: rank 1 ("));
  EXPECT_TRUE(contains(output, "modl.x: unknown key"));
  EXPECT_TRUE(contains(output, "status 2 2"));
}

// A rank without rank 0, and rank 0 of another job without its ranks.
TEST_F(ParallelMeetingSlow, WhoWaitsSaysForWhomAndNotForLong) {
  const int port = TcpListener(0, Reach::machine).port(), other_port = TcpListener(0, Reach::machine).port();
  const std::string impatient = train("run", "trainer.rank_timeout=3");
  const auto start = std::chrono::steady_clock::now();
  const std::string output = run_both(fmt::format("{} {} {}", rank_of(1, 2, port), TRIREME_BINARY, impatient),
                                      fmt::format("{} {} {}", rank_of(0, 3, other_port), TRIREME_BINARY, impatient));
  EXPECT_TRUE(contains(output, fmt::format("rank 1 is waiting for rank 0 at 127.0.0.1, port {}: no process answers", port)));
  EXPECT_TRUE(contains(output, "trireme: rank 1 waited 3 s for rank 0"));
  EXPECT_TRUE(contains(output, "waiting for ranks 1-2 of 3; rank 0 listens at "));
  EXPECT_TRUE(contains(output, "trireme: waited 3 s for ranks 1-2 of 3"));
  EXPECT_TRUE(contains(output, "status 1 1"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60)) << "3 s are what it takes on a quiet machine";
}

TEST_F(ParallelMeeting, PodsWithSeveralRanksNeedNoWorldSize) {
  const int port = TcpListener(0, Reach::machine).port();
  const auto result = run_program(
      train("run", "trainer.rank_timeout=1"),
      fmt::format("JOB_COMPLETION_INDEX=0 NNODES=2 GPUS_PER_NODE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT={}", port));
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.output, "s for ranks 1-3 of 4"));
}

TEST_F(ParallelMeeting, APortThatIsNoneIsRefused) {
  const auto result = run_program(train("run"), rank_of(1, 2, 99999));
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.output, "trireme: MASTER_PORT=99999 in the environment is not a port; use 1 to 65535\n");
}

}  // namespace
}  // namespace trireme
