// Runs that are told to stop: they save what there is and leave with status 75, whenever the signal comes.
#include <sys/stat.h>

#include "cli/small_run.h"

namespace trireme {
namespace {

class StopSignalTest : public SmallRun {
 protected:
  // Long enough to be under way when a signal comes.
  std::string long_run(const std::string& more = "") const { return train("stopped", "trainer.max_steps=4000 " + more); }
  bool is_under_way() const { return fs::exists(shard("stopped", 10)); }

  // What the run says of itself when it was stopped, and that going on ends where an undisturbed run does.
  void expect_saved() {
    EXPECT_TRUE(contains(text_of("stopped/joblog.log"), "STATUS=stopped by a signal"));
    EXPECT_TRUE(fs::exists(folder_ / "stopped/summary.json"));
    const std::string text = text_of("stopped/joblog.log");
    const int steps = std::stoi(text.substr(text.rfind("STEPS_DONE=") + 11));
    EXPECT_TRUE(fs::exists(shard("stopped", steps))) << steps;
  }
};

TEST_F(StopSignalTest, TheSignalSavesAndResumeContinuesBitForBit) {
  ASSERT_EQ(run_program(train("whole", "exp_manager.checkpoint_callback_params.keep_last=9")).status, 0);
  for (const int signal : {SIGTERM, SIGHUP}) {
    fs::remove_all(folder_ / "stopped");
    BackgroundProgram program(train("stopped", "exp_manager.checkpoint_callback_params.keep_last=9"));
    ASSERT_TRUE(eventually([&] { return is_under_way(); }));
    program.send(signal);
    const int status = program.finish();
    // 75: saved and left; 0 only if the run was over before the signal came.
    ASSERT_TRUE(status == 75 || status == 0) << status << " after signal " << signal;
    if (status == 75) {
      expect_saved();
      const auto resumed = run_program(train("stopped", "--resume"));
      ASSERT_EQ(resumed.status, 0) << resumed.output;
      EXPECT_TRUE(contains(resumed.output, "resumed from step"));
    }
    EXPECT_TRUE(shard_bytes("whole", 40) == shard_bytes("stopped", 40)) << signal;
  }
}

// A terminal that closes takes the reader of a pipe with it: the run must not end of what it cannot say.
TEST_F(StopSignalTest, AClosedTerminalSavesAlthoughNobodyReads) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  BackgroundProgram program(long_run("trainer.console_every_n_steps=1000"), fmt::format(">{} 2>&1", pipe));
  ASSERT_TRUE(eventually([&] { return is_under_way(); }));
  ::close(reader);
  program.send(SIGHUP);
  EXPECT_EQ(program.finish(), 75);
  expect_saved();
}

TEST_F(StopSignalTest, ALostReaderAloneDoesNotEndARun) {
  const auto result = run_shell(fmt::format("{} {} 2>&1 >/dev/null | true", TRIREME_BINARY, train("run")));
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(eventually([&] { return fs::exists(folder_ / "run/summary.json"); }));
}

TEST_F(StopSignalTest, NohupStaysNohup) {
  BackgroundProgram program(train("run"), ">/dev/null 2>&1", "exec nohup");
  ASSERT_TRUE(eventually([&] { return program.handles(SIGTERM); }));
  program.send(SIGHUP);
  EXPECT_EQ(program.finish(), 0);
  EXPECT_TRUE(fs::exists(shard("run", 40)));
}

// From the moment on at which the program handles signals, at many moments before and around the first step.
TEST_F(StopSignalTest, ASignalBeforeTheFirstStepIsAnsweredWith75) {
  for (int delay = 0; delay < 24; delay += 2) {
    fs::remove_all(folder_ / "stopped");
    BackgroundProgram program(long_run());
    ASSERT_TRUE(eventually([&] { return program.handles(SIGTERM); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    program.send(delay % 4 == 0 ? SIGTERM : SIGHUP);
    EXPECT_EQ(program.finish(), 75) << "after " << delay << " ms";
    if (!fs::exists(folder_ / "stopped")) continue;  // left before there was a run
    const auto resumed = run_program(train("stopped", "trainer.max_steps=4000 trainer.max_time=00:00:00:01 --resume"));
    EXPECT_EQ(resumed.status, 0) << resumed.output;
  }
}

}  // namespace
}  // namespace trireme
