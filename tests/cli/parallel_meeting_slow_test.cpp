// Ranks that meet beside other jobs, under torchrun, and while one of them is killed.
#include <cstdlib>
#include <random>

#include "cli/mpi_run.h"
#include "support/skip.h"

namespace trireme {
namespace {

class ParallelMeetingSlow : public MpiRun {
 protected:
  void SetUp() override {}  // without mpirun too

  std::vector<double> losses_alone(int seed) {
    const std::string run = fmt::format("alone-{}", seed);
    const auto result = run_program(train(run, fmt::format("trainer.max_steps=3 model.seed={}", seed)));
    EXPECT_EQ(result.status, 0) << result.output;
    return logged(run, "reduced_train_loss");
  }
};

// Steps of one allocation that start at the same moment, with different seeds: each trains its own model.
TEST_F(ParallelMeetingSlow, SixStepsOfOneJobDoNotMix) {
  constexpr int kSteps = 6;
  std::string script;
  for (int step = 0; step < kSteps; ++step)
    for (int rank = 0; rank < 2; ++rank)
      script += fmt::format(
          "SLURM_PROCID={} SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=localhost SLURM_JOB_ID=77 "
          "SLURM_STEP_ID={} {} {} & ",
          rank, step, TRIREME_BINARY,
          train(fmt::format("step-{}", step), fmt::format("trainer.max_steps=3 model.seed={}", step)));
  const auto result = run_shell("sh -c '" + script + "wait'");
  EXPECT_EQ(complaints(result.output), 0) << result.output;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<double> alone = losses_alone(step), together = logged(fmt::format("step-{}", step), "reduced_train_loss");
    ASSERT_EQ(together.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(together[i], alone[i], 1e-5) << "sums in another order, in f32";
  }
}

// A rank that is killed at any moment while the ranks meet leaves nobody behind for longer than the timeout.
TEST_F(ParallelMeetingSlow, AKillAtAnyMomentLeavesNobodyWaiting) {
  constexpr int kRanks = 4, kRounds = 10;
  std::mt19937 random(7);
  for (int round = 0; round < kRounds; ++round) {
    const int port = TcpListener(0, Reach::machine).port();
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      start(fmt::format("env RANK={} WORLD_SIZE={} MASTER_ADDR=127.0.0.1 MASTER_PORT={} {} {}", rank, kRanks, port,
                        TRIREME_BINARY, train(fmt::format("run-{}", round), "trainer.max_steps=100000 trainer.rank_timeout=3")));
      ranks.push_back(child_);
    }
    std::this_thread::sleep_for(milliseconds(random() % 300));
    kill(ranks[random() % kRanks], SIGKILL);
    // 3 s to notice that nobody comes, 10 s more for who knows less than rank 0; the rest is for a busy machine.
    for (const pid_t rank : ranks) {
      int status = 0;
      const bool ended = eventually([&] { return waitpid(rank, &status, WNOHANG) == rank; }, std::chrono::seconds(60));
      EXPECT_TRUE(ended) << "round " << round << ", process " << rank;
      if (!ended) {
        kill(rank, SIGKILL);
        waitpid(rank, &status, 0);
      }
      EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
  }
}

// torchrun of PyPI's torch: its agent listens at the port that it gives to the ranks.
TEST_F(ParallelMeetingSlow, TorchrunStartsRanks) {
  const char* given = std::getenv("TRIREME_PYTHON");
  const std::string python = given != nullptr ? given : "python3";
  if (run_shell(python + " -c 'import torch.distributed.run'").status != 0)
    SKIP_FOR(peer) << python << " has no torch; TRIREME_PYTHON names another";
  const auto torchrun = [&](const std::string& options, const std::string& run) {
    return fmt::format("{} -m torch.distributed.run {} --no-python {} {}", python, options, TRIREME_BINARY,
                       train(run, "trainer.max_steps=3 model.seed=1"));
  };
  const std::vector<double> alone = losses_alone(1);
  const auto expect_trained = [&](const std::string& run, const ProgramResult& result) {
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_TRUE(contains(result.output, "layout  2 ranks on 1 machine"));
    const std::vector<double> together = logged(run, "reduced_train_loss");
    ASSERT_EQ(together.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(together[i], alone[i], 1e-5) << "sums in another order, in f32";
  };
  expect_trained("standalone", run_shell(torchrun("--standalone --nproc-per-node 2", "standalone")));
  const int port = TcpListener(0, Reach::machine).port();
  expect_trained("static", run_shell(torchrun(fmt::format("--nproc-per-node 2 --master-port {}", port), "static")));
  const auto node = [&](int rank) {
    return torchrun(
        fmt::format("--nnodes 2 --node-rank {} --nproc-per-node 1 --master-addr 127.0.0.1 --master-port {}", rank, port),
        "nodes");
  };
  expect_trained("nodes", run_shell("sh -c '" + node(1) + " & " + node(0) + "; s=$?; wait; exit $s'"));
}

}  // namespace
}  // namespace trireme
