// What happens to a run of several ranks when one of them dies, stands still, is told to stop, or cannot write: all leave
// together, in seconds, with one line; nothing is lost; and the run that goes on equals the undisturbed one to the last bit.
#include <sys/ptrace.h>

#include "cli/mpi_run.h"
#include "support/skip.h"

namespace trireme {
namespace {

constexpr const char* kLayout = "model.tensor_model_parallel_size=2";  // with DP 2

class ParallelFaults : public MpiRun {
 protected:
  // Starts a run of four ranks that is under way when this returns.
  void start_run(const std::string& more = "") {
    start(mpirun(4, train("run", fmt::format("{} trainer.max_steps=4000 {}", kLayout, more))));
    const auto is_under_way = [&] {
      return newest_checkpoint() >= 10 && output().find("\nstep ") != std::string::npos && processes().size() == 4;
    };
    ASSERT_TRUE(eventually(is_under_way)) << output();
  }

  int newest_checkpoint() const {
    int newest = 0;
    if (!fs::exists(folder_ / "run/checkpoints")) return newest;
    for (const auto& entry : fs::directory_iterator(folder_ / "run/checkpoints"))
      if (const std::string name = entry.path().filename(); std::regex_match(name, std::regex("step-\\d+")))
        newest = std::max(newest, std::stoi(name.substr(5)));
    return newest;
  }

  // Goes on to the next checkpoint after the newest there is, and compares it with that of a run that nothing happened to.
  void expect_equal_to_undisturbed() {
    const int end = (newest_checkpoint() / 10 + 1) * 10;
    for (const char* run : {"run", "undisturbed"}) {
      start(mpirun(4, train(run, fmt::format("{} trainer.max_steps=4000 --resume exp_manager.resume_ignore_no_checkpoint=true "
                                             "exp_manager.checkpoint_callback_params.keep_last=1000",
                                             kLayout))));
      ASSERT_TRUE(eventually([&] { return fs::exists(checkpoint(run, end)); })) << output();
      kill(processes().at(1), SIGTERM);
      EXPECT_EQ(finish(), 75) << output();
    }
    EXPECT_TRUE(shard_bytes("run", end) == shard_bytes("undisturbed", end));
  }
};

TEST_F(ParallelFaults, ARankThatIsKilledTakesTheJobDown) {
  for (const size_t victim : {size_t{2}, size_t{0}}) {
    start_run("--resume exp_manager.resume_ignore_no_checkpoint=true");
    const pid_t process = processes().at(victim);
    kill(process, SIGKILL);
    EXPECT_NE(finish(std::chrono::seconds(20)), 0);
    const std::regex line(
        fmt::format("trireme: rank {} \\([^ ]+, process {}\\) died in step \\d+; post-mortem: [^\n]+\n", victim, process));
    EXPECT_TRUE(std::regex_search(output(), line)) << output();
    EXPECT_EQ(complaints(output()), 1) << output();
    EXPECT_FALSE(contains(output(), "SIGTERM")) << "mpirun's own signal is nobody's wish";
  }
  expect_equal_to_undisturbed();
}

// Nobody but the ranks themselves takes the others down here.
TEST_F(ParallelFaults, RanksWithoutALauncherLeaveTogetherToo) {
  start(processes_that_meet(4, train("run", fmt::format("{} trainer.max_steps=4000", kLayout))));
  ASSERT_TRUE(eventually([&] { return output().find("\nstep ") != std::string::npos; })) << output();
  kill(processes().at(1), SIGKILL);
  EXPECT_EQ(finish(std::chrono::seconds(20)), 1);
  EXPECT_TRUE(std::regex_search(output(),
                                std::regex("trireme: rank 1 \\([^ ]+, process \\d+\\) died in step \\d+; post-mortem: [^\n]+\n")))
      << output();
  EXPECT_EQ(complaints(output()), 1) << output();
}

TEST_F(ParallelFaults, EveryRankWritesItsStackOnRequest) {
  start_run();
  kill(child_, SIGUSR1);  // mpirun passes it on to all
  for (int rank = 0; rank < 4; ++rank) {
    const fs::path file = folder_ / "run" / fmt::format("stack_globalrank-{}.txt", rank);
    const auto is_written = [&] { return fs::exists(file) && read_file(file, 1 << 20).find("Trainer") != std::string::npos; };
    EXPECT_TRUE(eventually(is_written, std::chrono::seconds(20))) << rank;
  }
  kill(processes().at(3), SIGTERM);
  EXPECT_EQ(finish(), 75) << output();
}

TEST_F(ParallelFaults, ARankThatStandsStillIsNamedByTheTimeout) {
  start_run("trainer.rank_timeout=4");
  const pid_t process = processes().at(3);
  kill(process, SIGSTOP);
  EXPECT_EQ(finish(std::chrono::seconds(30)), 1);
  const std::regex line(
      fmt::format("trireme: .*waited 4 s for \".*\"; under way: .* in group .* \\(ranks .*\\); "
                  ".*rank 3 \\([^ ]+, process {}\\) did not arrive and has been silent for \\d+ s.*\n",
                  process));
  EXPECT_TRUE(std::regex_search(output(), line)) << output();
  EXPECT_EQ(complaints(output()), 1) << output();
  expect_equal_to_undisturbed();
}

TEST_F(ParallelFaults, TheFirstRankStandingStillIsNamedToo) {
  start_run("trainer.rank_timeout=4");
  kill(processes().at(0), SIGSTOP);
  const auto stopped = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually([&] { return complaints(output()) > 0; }, std::chrono::seconds(40))) << output();
  // As soon as any other rank: the timeout, and 2 s for heartbeats that were sent before. Asking rank 0 would take 8 s more.
  EXPECT_LT(std::chrono::steady_clock::now() - stopped, std::chrono::seconds(12)) << output();
  EXPECT_EQ(finish(std::chrono::seconds(40)), 1);
  const std::regex line("trireme: waited 4 s for .*rank 0 \\([^ ]+, process \\d+\\).*(has been silent for|heard nothing of it)");
  EXPECT_TRUE(std::regex_search(output(), line)) << output();
  EXPECT_EQ(complaints(output()), 1) << output();  // rank 0, which wakes up to be killed, says nothing of its own
}

// Without any setting: twice 5 s for steps of milliseconds, and time for a machine that is busy.
TEST_F(ParallelFaults, ARankThatIsStoppedIsFoundByItsSilence) {
  for (const size_t victim : {size_t{3}, size_t{0}}) {
    start_run("--resume exp_manager.resume_ignore_no_checkpoint=true");
    const pid_t process = processes().at(victim);
    kill(process, SIGSTOP);
    EXPECT_NE(finish(std::chrono::seconds(60)), 0);
    const std::string name = fmt::format("rank {} \\([^ ]+, process {}\\)", victim, process);
    EXPECT_TRUE(std::regex_search(
        output(), std::regex("\n" + name + " lags: .*, silent for \\d+ s: its process is stopped; the job ends if this lasts")))
        << output();
    EXPECT_TRUE(std::regex_search(output(), std::regex("trireme: " + name + " hangs: .*")) || victim == 0) << output();
  }
  expect_equal_to_undisturbed();
}

// Only the thread that trains stands still; the control plane of the rank is alive.
TEST_F(ParallelFaults, ARankThatHangsIsNamedWithItsPhase) {
  start_run();
  const pid_t process = processes().at(2);
  if (::ptrace(PTRACE_ATTACH, process, nullptr, nullptr) != 0) SKIP_FOR(machine) << "no process may stop another one's thread";
  EXPECT_TRUE(eventually([&] { return output().find(" hangs: ") != std::string::npos; }, std::chrono::seconds(60))) << output();
  const std::string name = fmt::format("rank 2 \\([^ ]+, process {}\\)", process);
  EXPECT_TRUE(std::regex_search(output(), std::regex(name + " lags: .*step \\d+.*, no progress for \\d+ s; the job ends")))
      << output();
  EXPECT_TRUE(std::regex_search(output(), std::regex("trireme: " + name + " hangs: .*step \\d+.*, no progress for \\d+ s")))
      << output();
  EXPECT_EQ(complaints(output()), 1) << output();
  kill(process, SIGKILL);
  for (int status = 0; waitpid(process, &status, __WALL) == process && WIFSTOPPED(status);) continue;  // its tracer reaps it
  finish(std::chrono::seconds(60));
}

// At many moments before and around the first step. A signal before the ranks have met leaves the other waiting, which is ended.
TEST_F(ParallelFaults, ASignalBeforeTheFirstStepIsAnsweredWith75) {
  for (int delay = 0; delay < 60; delay += 6) {
    start(processes_that_meet(2, train("early", "trainer.max_steps=4000")));  // its status is that of rank 1
    ASSERT_TRUE(eventually([&] { return children().size() == 2 && handles(children()[1], SIGTERM); })) << output();
    const std::vector<pid_t> ranks = children();
    std::this_thread::sleep_for(milliseconds(delay));
    kill(ranks[1], SIGTERM);
    EXPECT_EQ(finish(std::chrono::seconds(40)), 75) << "after " << delay << " ms: " << output();
    const bool have_met = output().find("layout  2 ranks") != std::string::npos;
    const auto other_has_left = [&] { return kill(ranks[0], 0) != 0; };
    EXPECT_TRUE(!have_met || eventually(other_has_left, std::chrono::seconds(20))) << output();
    kill(ranks[0], SIGKILL);
    fs::remove_all(folder_ / "early");
  }
}

TEST_F(ParallelFaults, ASignalToOneRankMakesAllSaveAndLeave) {
  for (const int signal : {SIGTERM, SIGUSR2}) {
    start_run("--resume exp_manager.resume_ignore_no_checkpoint=true");
    if (signal == SIGTERM)
      kill(processes().at(2), signal);
    else
      kill(child_, signal);  // mpirun passes this one on to all
    EXPECT_EQ(finish(), 75) << output();
    EXPECT_TRUE(contains(output(), signal == SIGTERM ? "SIGTERM on rank 2: saving and leaving" : "SIGUSR2 on rank"));
    EXPECT_EQ(complaints(output()), 0) << output();
  }
  expect_equal_to_undisturbed();
}

// A disk that is full after two checkpoints: the save fails on all ranks, the run goes on, and what was there is untouched.
TEST_F(ParallelFaults, AFullDiskCostsACheckpointAndNothingElse) {
  const std::string mount_point = (folder_ / "run").string();
  fs::create_directory(mount_point);
  if (run_shell("mount -t tmpfs -o size=2200k tmpfs " + mount_point).status != 0)
    SKIP_FOR(machine) << "only root can make a small disk";
  const std::string steps = fmt::format("{} trainer.max_steps=40 ", kLayout);
  const auto full = run_shell(mpirun(4, train("run", steps)));
  EXPECT_EQ(full.status, 1) << full.output;
  EXPECT_TRUE(contains(full.output, "warning: cannot save step-00000030"));
  EXPECT_TRUE(contains(full.output, "trireme: the last checkpoint, of step 40, could not be saved"));
  EXPECT_EQ(complaints(full.output), 1) << full.output;
  EXPECT_EQ(newest_checkpoint(), 20);
  EXPECT_EQ(run_shell("mount -o remount,size=16m " + mount_point).status, 0);
  const auto resumed = run_shell(mpirun(4, train("run", steps + "--resume")));
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_TRUE(contains(resumed.output, "resumed from step 20"));
  EXPECT_EQ(run_shell(mpirun(4, train("whole", steps))).status, 0);
  EXPECT_TRUE(shard_bytes("run", 40) == shard_bytes("whole", 40));
  EXPECT_EQ(run_shell("umount " + mount_point).status, 0);
}

TEST_F(ParallelFaults, ARankLostDuringASaveLosesNothing) {
  start_run("exp_manager.checkpoint_callback_params.every_n_train_steps=1");
  const auto is_saving = [&] {
    for (const auto& entry : fs::directory_iterator(folder_ / "run/checkpoints"))
      if (entry.path().extension() == ".writing") return true;
    return false;
  };
  ASSERT_TRUE(eventually(is_saving));
  kill(processes().at(1), SIGKILL);
  EXPECT_NE(finish(std::chrono::seconds(20)), 0);
  EXPECT_TRUE(contains(output(), "trireme: rank 1 ("));
  expect_equal_to_undisturbed();
}

}  // namespace
}  // namespace trireme
