// What a failed attempt leaves behind, and what is said at the end: post-mortems, where the time went, corrupted replicas.
#include <nlohmann/json.hpp>
#include <regex>

#include "launch/local_run.h"
#include "telemetry/goodput.h"

namespace trireme {
namespace {

using std::chrono::seconds;

class FaultReport : public LocalRun {
 protected:
  fs::path results(const std::string& name) const { return launch_folder(name) / "results"; }
};

TEST_F(FaultReport, AKilledRankLeavesAPageAndItsTime) {
  ASSERT_EQ(trireme(launch_run("run", "--detach")).status, 0);
  wait_until_trained("run");
  const pid_t process = ranks_of("run")[1];
  kill(process, SIGKILL);
  wait_until_over("run");
  const std::string page = text_of(results("run") / "post-mortem-1.txt");
  EXPECT_TRUE(std::regex_search(page, std::regex(fmt::format("process {}\\) died in step \\d+\n", process)))) << page;
  EXPECT_TRUE(contains(page, "The newest checkpoint is that of step ")) << page;
  EXPECT_TRUE(contains(log_of("run"), "; post-mortem: " + (results("run") / "post-mortem-1.txt").string()));

  const std::vector<RunAttempt> attempts = read_attempts_of_run(results("run") / kGoodputName);
  ASSERT_EQ(attempts.size(), 2U);
  EXPECT_EQ(attempts[0].ending->status, 1);
  EXPECT_EQ(attempts[1].ending->status, 0);
  const RunTime time = account_of(attempts);
  EXPECT_EQ(time.times.total(), attempts[1].ending->at - attempts[0].started) << "all on one clock";
  EXPECT_GT(time.times[TimeUse::step], 0);
  EXPECT_GT(time.times[TimeUse::restart], 0);
  EXPECT_GT(time.times[TimeUse::checkpoint], 0);
  const auto summary = nlohmann::json::parse(text_of(results("run") / "summary.json"));
  EXPECT_EQ(summary.at("time").at("attempts"), 2);
  EXPECT_EQ(summary.at("time").at("lost_steps"), time.lost_steps);
  EXPECT_GT(summary.at("checkpoints").at("saved").get<int>(), 0);
  EXPECT_TRUE(contains(log_of("run"), "attempt 2 of this run, until now goodput "));
  EXPECT_TRUE(contains(log_of("run"), "time    goodput "));
  const std::regex rungs(
      "launch  recovered on this machine in \\d+\\.\\d\\d s: the ranks .*had left after .*, were started again after .*, first "
      "step after ");
  EXPECT_TRUE(std::regex_search(log_of("run"), rungs)) << log_of("run");
}

TEST_F(FaultReport, LocalCheckpointsServeARestartWhoseDiskIsFull) {
  const fs::path shared = results("run") / "checkpoints";
  fs::create_directories(shared);
  if (run_shell("mount -t tmpfs -o size=64k tmpfs " + shared.string()).status != 0) SKIP_FOR(machine) << "only root can mount";
  const std::string local = "exp_manager.checkpoint_callback_params.local_dir=" + (folder_ / "local").string();
  const std::string run = fmt::format("launch local tiny.yaml --name run --ranks 2 --resume trainer.max_steps=100 {} ", local);
  const ProgramResult full = trireme(run + "--max-restarts 0");
  EXPECT_EQ(full.status, 1) << full.output;
  EXPECT_TRUE(contains(full.output, "warning: cannot save step-")) << full.output;
  EXPECT_EQ(run_shell("mount -o remount,size=16m " + shared.string()).status, 0);
  const ProgramResult resumed = trireme(run);
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_TRUE(contains(resumed.output, "resumed from step 100")) << resumed.output;
  EXPECT_EQ(newest_step(results("run")), 100);
  EXPECT_TRUE(fs::is_empty(folder_ / "local")) << "a finished run needs it no longer";
  EXPECT_EQ(run_shell("umount " + shared.string()).status, 0);
}

TEST_F(FaultReport, ARestartFinishesWhatAKilledSaveLeftToRemove) {
  const fs::path shared = results("run") / "checkpoints", old = shared / "step-00000001";
  fs::create_directories(shared);
  if (run_shell("mount -t tmpfs -o size=16m tmpfs " + shared.string()).status != 0) SKIP_FOR(machine) << "only root can mount";
  const std::string run = "launch local tiny.yaml --name run --ranks 2 --resume --max-restarts 0 trainer.max_steps=";
  EXPECT_EQ(trireme(run + "30").status, 0);
  // As after a kill between a save and the removal of the oldest checkpoint, on a disk that has no room for another one.
  fs::copy(shared / "step-00000030", old, fs::copy_options::recursive);
  EXPECT_EQ(run_shell(fmt::format("head -c 4M /dev/zero > {}/filler", old.string())).status, 0);
  EXPECT_EQ(
      run_shell(fmt::format("head -c {} /dev/zero > {}/filler", fs::space(shared).available - (1 << 19), shared.string())).status,
      0);
  const ProgramResult resumed = trireme(run + "60");
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_FALSE(fs::exists(old));
  EXPECT_EQ(newest_step(results("run")), 60);
  EXPECT_EQ(run_shell("umount " + shared.string()).status, 0);
}

}  // namespace
}  // namespace trireme
