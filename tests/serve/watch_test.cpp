#include "serve/watch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "report/logs.h"
#include "serve/terminal_chart.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

constexpr Terminal kPlain{};

History history_of(const std::vector<double>& values) {
  History history;
  std::vector<Point> points;
  for (const double value : values) points.push_back({std::ssize(points), value});
  history.add(points);
  return history;
}

TEST(TerminalChart, DrawsARisingLineFromCornerToCorner) {
  const auto label = [](double value) { return fmt::format("{:.0f}", value); };
  const auto lines = draw_chart(history_of({0, 1, 2, 3}), {.columns = 10, .rows = 2, .label = label});
  EXPECT_EQ(lines, (std::vector<std::string>{"     3 ┤⢀⠎", "     0 ┤⡜"}));
  EXPECT_EQ(draw_chart(History{}, {.columns = 10, .rows = 2, .label = label}).size(), 2u);
  EXPECT_EQ(draw_bars({1, 2, 8}), "▁▂█");
}

TEST(TerminalChart, CutsOffRareSpikes) {
  std::vector<double> values(200, 1);
  values[50] = 1000;
  const auto label = [](double value) { return fmt::format("{:.2f}", value); };
  const TerminalChart chart{.columns = 300, .rows = 3, .label = label, .range = TerminalChart::Range::usual};
  EXPECT_TRUE(contains(draw_chart(history_of(values), chart)[0], "1.06"));
}

TEST(TerminalLine, HasNothingThatATerminalObeys) {
  EXPECT_EQ(terminal_line("a\x1b[2Jb\tc\r\n\x07", 80), "a [2Jb c   ");
  EXPECT_EQ(terminal_line("\xc2\x9b"
                          "31mx",
                          80),
            " 31mx");  // the one-byte form of ESC [
  EXPECT_EQ(terminal_line("äöü", 2), "äö");
  EXPECT_EQ(terminal_line("\xff\xfe", 80), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

class TerminalWatchTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(TerminalWatchTest, FitsTheTerminalAndShowsWhatTheRunDoes) {
  folder_.write("run/dllogger.json", nemo_log(50, ", \"trainer/max_steps\": 100"));
  std::string text;
  for (int step = 1; step <= 50; ++step)
    text += fmt::format("[NeMo I 2026-11-15 06:39:23 train:{0}] step  {0}/100  loss  5.4243  {1} ms   10.6k tok/s \x1b[31m\n",
                        step, 100 + step);
  for (int rank = 0; rank < 3; ++rank) folder_.write(fmt::format("run/nemo_log_globalrank-{0}_localrank-{0}.txt", rank), text);
  TerminalWatch watch(folder_.path().string());
  watch.update();
  for (const auto& [columns, rows] : {std::pair{80, 24}, {40, 10}, {200, 60}, {80, 0}}) {
    const std::string frame = watch.frame(columns, rows, kPlain);
    std::istringstream lines(frame);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(columns_of(line), columns) << line;
    EXPECT_TRUE(rows == 0 || count <= rows) << frame;
    EXPECT_EQ(frame.find('\x1b'), frame.npos);
  }
  const std::string frame = watch.frame(100, 30, kPlain);
  EXPECT_TRUE(contains(frame, "running"));
  EXPECT_TRUE(contains(frame, "50/100  50%  eta"));
  EXPECT_TRUE(contains(frame, "loss 9.5100"));
  EXPECT_TRUE(contains(frame, "3 ranks  slowest rank 0 with 150.0 ms"));
  EXPECT_TRUE(contains(frame, "06:39:23 I step  50/100"));
  EXPECT_FALSE(watch.ending());
}

TEST_F(TerminalWatchTest, KnowsHowARunEnded) {
  folder_.write("run/dllogger.json", nemo_log(5));
  const std::string log = folder_.write("run/joblog.log", "STARTED=a\n");
  TerminalWatch watch((folder_ / "run").string());
  watch.update();
  EXPECT_FALSE(watch.ending());
  std::ofstream(log, std::ios::app) << "ENDED=b\nSTEPS_DONE=5\nSTATUS=failed\n";
  EXPECT_EQ(watch.ending(), RunStatus::failed);
  EXPECT_TRUE(contains(watch.exit_line(), "failed after 5 steps"));
  std::ofstream(log, std::ios::app) << "STARTED=c\n";  // it runs again
  EXPECT_FALSE(watch.ending());
  std::ofstream(log, std::ios::app) << "ENDED=d\nSTEPS_DONE=5\nSTATUS=stopped by a signal\n";
  EXPECT_EQ(watch.ending(), RunStatus::stopped);
}

TEST_F(TerminalWatchTest, FollowsALogFileAndARunThatVanishes) {
  const std::string log = folder_.write("run/metrics.csv", "step,loss\n1,2.5\n");
  TerminalWatch watch(log);
  watch.update();
  EXPECT_TRUE(contains(watch.frame(80, 24, kPlain), "loss 2.5000"));
  std::ofstream(log, std::ios::app) << "2,2.25\n3,1.";
  watch.update();
  EXPECT_TRUE(contains(watch.frame(80, 24, kPlain), "loss 2.2500"));
  std::filesystem::remove_all(folder_ / "run");
  watch.update();
  EXPECT_TRUE(contains(watch.frame(80, 24, kPlain), "loss 2.2500"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { const TerminalWatch again(log); }), "is not there"));
}

}  // namespace
}  // namespace trireme
