// What a launch on this machine does when one of its processes is killed or stopped, when all are told to stop, and when its logs
// cannot be written: it is handled within seconds, no process is left, and the run ends with the weights of an undisturbed one.
#include "launch/local_run.h"

namespace trireme {
namespace {

using std::chrono::seconds;

// Who starts the ranks: mpirun, or the supervisor where there is none.
class LocalFaults : public LocalRun, public testing::WithParamInterface<const char*> {
 protected:
  static void SetUpTestSuite() {
    undisturbed_ = std::make_unique<TemporaryFolder>();
    write_recipe(*undisturbed_);
    const ProgramResult result =
        run_shell(fmt::format("cd {} && {} launch local tiny.yaml --name plain --ranks 2 trainer.max_steps={}",
                              undisturbed_->path().string(), TRIREME_BINARY, kLocalSteps));
    if (result.status != 0) throw std::runtime_error(result.output);
  }
  static void TearDownTestSuite() { undisturbed_.reset(); }

  void SetUp() override {
    if (is_mpirun() && run_shell("command -v mpirun").status != 0) SKIP_FOR(mpi) << "mpirun is not installed";
  }
  bool is_mpirun() const { return std::string_view(GetParam()) == "mpirun"; }
  std::string path() const { return is_mpirun() ? "" : "PATH=/nothing"; }

  void start(const std::string& name, const std::string& more = "") const {
    const ProgramResult result = trireme(launch_run(name, "--detach " + more), path());
    ASSERT_EQ(result.status, 0) << result.output;
    wait_until_trained(name);
  }
  void finish(const std::string& name) const {
    const ProgramResult result = trireme(launch_run(name, "--resume"), path());
    EXPECT_EQ(result.status, 0) << result.output;
  }
  // The folder in which Open MPI keeps what a rank shares with others; empty if mpirun has not started it.
  static std::string scratch_of(pid_t rank) {
    const std::string environment = read_file(fmt::format("/proc/{}/environ", rank), 1 << 20);
    const std::string variable = "OMPI_MCA_btl_vader_backing_directory=";
    const size_t found = environment.find(variable);
    if (found == std::string::npos) return "";
    return environment.substr(found + variable.size(), environment.find('\0', found) - found - variable.size());
  }
  void expect_undisturbed(const std::string& name) const {
    std::string whole;
    for (int rank = 0; rank < 2; ++rank)
      whole += text_of(*undisturbed_ /
                       fmt::format("runs/plain/results/checkpoints/step-{:08}/rank-{:05}.safetensors", kLocalSteps, rank));
    EXPECT_FALSE(whole.empty());
    EXPECT_TRUE(final_weights(name) == whole) << log_of(name);
  }

  static inline std::unique_ptr<TemporaryFolder> undisturbed_;
};

class LocalFaultsOfOne : public LocalFaults {};  // that do not depend on who starts the ranks

TEST_P(LocalFaults, AKilledRankIsStartedAgainWithTheOthers) {
  start("run");
  const std::vector<pid_t> ranks = ranks_of("run");
  kill(ranks[1], SIGKILL);
  EXPECT_TRUE(eventually(
      [&] { return log_of("run").find("attempt 2 continues from the checkpoint of step") != std::string::npos; }, seconds(20)))
      << log_of("run");
  wait_until_over("run");
  EXPECT_TRUE(contains(log_of("run"), fmt::format("process {}) died in step", ranks[1])));
  EXPECT_EQ(read_attempts(launch_folder("run")).size(), 2U);
  EXPECT_TRUE(contains(status_of("run"), fmt::format("done (exit status 0), checkpoint of step {}", kLocalSteps)));
  expect_undisturbed("run");
}

TEST_P(LocalFaultsOfOne, AStoppedRankIsKilledAndStartedAgain) {
  start("run");
  const pid_t rank = ranks_of("run")[0];
  kill(rank, SIGSTOP);
  EXPECT_TRUE(eventually([&] { return log_of("run").find("attempt 2 continues") != std::string::npos; }, seconds(40)))
      << log_of("run");
  wait_until_over("run");
  EXPECT_TRUE(contains(log_of("run"), fmt::format("(process {}) was stopped by a signal for 5 s", rank)));
  expect_undisturbed("run");
}

TEST_P(LocalFaultsOfOne, ASupervisorToldToStopSavesAndLeavesNothing) {
  start("run");
  kill(supervisors().at(0), SIGTERM);
  EXPECT_TRUE(eventually([&] { return processes("").empty(); }, seconds(30))) << left();
  EXPECT_TRUE(contains(status_of("run"), "stopped (exit status 75)"));
  EXPECT_TRUE(contains(trireme(launch_run("run")).output, "--resume continues it"));
  finish("run");
  expect_undisturbed("run");
}

TEST_P(LocalFaults, AKilledSupervisorTakesItsRanksWithIt) {
  start("run");
  const std::string scratch = scratch_of(ranks_of("run").at(0));
  EXPECT_TRUE(scratch.empty() || fs::exists(scratch)) << scratch;
  kill(supervisors().at(0), SIGKILL);
  EXPECT_TRUE(eventually([&] { return processes("").empty(); }, seconds(10))) << left();
  EXPECT_LT(newest_step(launch_folder("run") / "results"), kLocalSteps) << "the ranks went on to their own end";
  EXPECT_TRUE(contains(status_of("run"), "failed (exit status 1)"));
  EXPECT_TRUE(contains(status_of("run"), "its supervisor was killed"));
  finish("run");
  expect_undisturbed("run");
  EXPECT_TRUE(scratch.empty() || !fs::exists(scratch)) << "shared memory of killed ranks is left in " << scratch;
}

// Every file of the logs is on a full disk; the warning is on the terminal, once.
TEST_P(LocalFaultsOfOne, AFullDiskOfLogsCostsLinesOfTheLogs) {
  fs::create_directories(launch_folder("run"));
  for (const char* name : {"log.txt", "rank-00000.log", "rank-00001.log"})
    fs::create_symlink("/dev/full", launch_folder("run") / name);
  const ProgramResult result = trireme(launch_run("run"), path());
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "cannot be written: No space left on device; the run continues without complete logs"));
  EXPECT_EQ(result.output.find("cannot be written"), result.output.rfind("cannot be written")) << result.output;
  expect_undisturbed("run");
}

TEST_P(LocalFaultsOfOne, ASignalToTheCommandReachesTheRanks) {
  const pid_t child = start_shell(fmt::format("cd {} && exec env {} {} {} > out.txt 2>&1", folder_.path().string(), path(),
                                              TRIREME_BINARY, launch_run("run")));
  wait_until_trained("run");
  kill(child, SIGTERM);
  int status = 0;
  EXPECT_TRUE(eventually([&] { return waitpid(child, &status, WNOHANG) == child; }, seconds(30)));
  EXPECT_EQ(WEXITSTATUS(status), 75) << text_of(folder_ / "out.txt");
  EXPECT_TRUE(contains(text_of(folder_ / "out.txt"), "SIGTERM: passed on to the ranks"));
  finish("run");
  expect_undisturbed("run");
}

// A rank that stands still cannot save, so the first signal alone does not end the launch at once.
TEST_P(LocalFaultsOfOne, ASecondSignalToTheCommandKillsTheRanks) {
  const pid_t child = start_shell(fmt::format("cd {} && exec env {} {} {} > out.txt 2>&1", folder_.path().string(), path(),
                                              TRIREME_BINARY, launch_run("run")));
  wait_until_trained("run");
  const std::vector<pid_t> ranks = ranks_of("run");
  kill(ranks[1], SIGSTOP);
  kill(child, SIGINT);
  EXPECT_TRUE(eventually([&] { return contains(log_of("run"), "INT: the ranks are told to stop"); }, seconds(20)));
  EXPECT_FALSE(ranks_of("run").empty());
  kill(child, SIGINT);
  int status = 0;
  EXPECT_TRUE(eventually([&] { return waitpid(child, &status, WNOHANG) == child; }, seconds(30)));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGKILL) << text_of(folder_ / "out.txt");
  EXPECT_FALSE(contains(log_of("run"), "was stopped by a signal")) << "the limit for stopped ranks ended it";
  EXPECT_TRUE(eventually([&] { return processes("").empty(); }, seconds(10))) << left();
  finish("run");
  expect_undisturbed("run");
}

INSTANTIATE_TEST_SUITE_P(Starters, LocalFaults, testing::Values("mpirun", "itself"),
                         [](const auto& starter) { return std::string(starter.param); });

INSTANTIATE_TEST_SUITE_P(Starters, LocalFaultsOfOne, testing::Values("mpirun"),
                         [](const auto& starter) { return std::string(starter.param); });

class LocalFaultsOnce : public LocalRun {};

TEST_F(LocalFaultsOnce, ARankThatExitsAtOnceIsTriedThreeTimes) {
  if (run_shell("command -v mpirun").status != 0) SKIP_FOR(mpi) << "mpirun is not installed";
  const ProgramResult result = trireme(launch_run("run", "--env OMPI_MCA_btl=none"));
  EXPECT_EQ(result.status, 93) << result.output;
  EXPECT_EQ(read_attempts(launch_folder("run")).size(), 3U);
  EXPECT_TRUE(contains(result.output, "3 attempts without a new checkpoint, not tried again"));
  EXPECT_TRUE(contains(result.output, "[mpirun] It looks like MPI_INIT failed")) << "the ranks themselves say nothing";
}

}  // namespace
}  // namespace trireme
