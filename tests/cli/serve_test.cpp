// trireme serve and trireme watch as programs: mistakes, signals, a terminal.
#include <gtest/gtest.h>

#include <csignal>

#include "base/file.h"
#include "cli/small_run.h"
#include "report/logs.h"
#include "support/skip.h"

namespace trireme {
namespace {

class ServeTest : public testing::Test {
 protected:
  // The first line that a program in the background has printed.
  std::string first_line() const {
    std::string text;
    EXPECT_TRUE(eventually(
        [&] { return fs::exists(folder_ / "out") && (text = read_file(folder_ / "out", 1 << 20)).find('\n') != text.npos; }));
    return text.substr(0, text.find('\n'));
  }
  TemporaryFolder folder_;
};

TEST_F(ServeTest, MistakesAreOneLine) {
  const std::string file = folder_.write("dllogger.json", nemo_log(3));
  for (const auto& [arguments, expected] :
       {std::pair<std::string, std::string>{"serve " + (folder_ / "none").string(), "is not there"},
        {"serve " + file, "is not a folder"},
        {"serve . --port 70000", "--port"},
        {"serve . --host 192.0.2.1 --port 0", "--host 192.0.2.1"},
        {"serve . --port 0 --accelerator_type h999 --max_flops -1", "--max_flops"},
        {"watch " + (folder_ / "none").string(), "is not there"},
        {"watch " + folder_.write("empty/x", ""), "is no log"},
        {"watch " + (folder_ / "empty").string(), "holds no log"},
        {"watch . --every 0", "--every"}}) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_TRUE(contains(result.output, expected));
  }
}

TEST_F(ServeTest, APortInUseIsOneLineAndASignalEndsIt) {
  folder_.write("runs/a/dllogger.json", nemo_log(3));
  const std::string runs = (folder_ / "runs").string();
  BackgroundProgram server("serve " + runs + " --port 0", ">" + (folder_ / "out").string() + " 2>&1");
  const std::string line = first_line();
  ASSERT_TRUE(line.starts_with("http://127.0.0.1:")) << line;
  const std::string port = line.substr(17, line.find('/', 17) - 17);
  const ProgramResult second = run_program("serve " + runs + " --port " + port);
  EXPECT_EQ(second.status, 2);
  EXPECT_EQ(second.output, fmt::format("trireme: port {} of 127.0.0.1 is in use; choose another one with --port\n", port));
  server.send(SIGINT);
  EXPECT_EQ(server.finish(), 0);
}

TEST_F(ServeTest, AnOpenAddressPrintsItsToken) {
  BackgroundProgram server("serve " + folder_.path().string() + " --host 127.0.0.1 --port 0",
                           ">" + (folder_ / "out").string() + " 2>&1");
  EXPECT_TRUE(contains(first_line(), "/?token="));
  server.send(SIGTERM);
  EXPECT_EQ(server.finish(), 0);
}

TEST_F(ServeTest, WatchPrintsOnceWhereThereIsNoTerminal) {
  folder_.write("runs/a/dllogger.json", nemo_log(3));
  folder_.write("runs/a/joblog.log", "STARTED=x\nSTATUS=finished\n");
  const ProgramResult result = run_program("watch " + (folder_ / "runs").string());
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(contains(result.output, "finished after 3 steps"));
  EXPECT_EQ(result.output.find('\x1b'), std::string::npos);
}

// `script` gives the program a terminal. The run goes on for a moment, then ends.
class ServeSlow : public ServeTest {};

TEST_F(ServeSlow, WatchFollowsInATerminalUntilTheRunEnds) {
  if (std::system("command -v script > /dev/null 2>&1") != 0) SKIP_FOR(machine) << "script is not there";
  const std::string log = folder_.write("run/dllogger.json", nemo_log(3));
  const std::string job = folder_.write("run/joblog.log", "STARTED=x\n");
  const std::string command =
      fmt::format("TERM=xterm timeout 60 script -qec '{} watch {} --every 0.1' {} > /dev/null 2>&1 < /dev/null", TRIREME_BINARY,
                  (folder_ / "run").string(), (folder_ / "out").string());
  const pid_t terminal = start_shell(command);
  const auto shows = [&](const std::string& text) {
    return eventually(
        [&] { return fs::exists(folder_ / "out") && read_file(folder_ / "out", 1 << 24).find(text) != std::string::npos; });
  };
  EXPECT_TRUE(shows("\x1b[?1049h"));
  EXPECT_TRUE(shows("loss 9.9800"));
  std::ofstream(log, std::ios::app) << nemo_step(3, 7.125, 1);
  EXPECT_TRUE(shows("loss 7.1250"));
  std::ofstream(job, std::ios::app) << "ENDED=y\nSTEPS_DONE=4\nSTATUS=finished\n";
  int status = 0;
  EXPECT_TRUE(eventually([&] { return waitpid(terminal, &status, WNOHANG) == terminal; }));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(shows("\x1b[?25h\x1b[?1049l"));
  EXPECT_TRUE(shows("finished after 4 steps"));
}

}  // namespace
}  // namespace trireme
