#include "telemetry/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <vector>

#include "fixtures.h"

namespace trireme {
namespace {

constexpr std::string_view kErase = "\r\x1b[K";

class ConsoleTest : public testing::Test {
 protected:
  ConsoleTest() : descriptor(open((folder / "out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600)) {}
  ~ConsoleTest() override { close(descriptor); }

  ConsoleOptions piped(int64_t total, int64_t every = 1) const {
    return {.total_steps = total, .every_n_steps = every, .descriptor = descriptor, .terminal = {}};
  }
  ConsoleOptions on_terminal(int64_t total, int64_t every = 1) const {
    ConsoleOptions options = piped(total, every);
    options.terminal = {.interactive = true, .colour = false, .columns = 80};
    return options;
  }
  std::string output() const { return contents_of(folder / "out"); }
  std::vector<std::string> lines() const {
    std::istringstream text(output());
    std::vector<std::string> result;
    for (std::string line; std::getline(text, line);) result.push_back(line);
    return result;
  }

  TemporaryFolder folder;
  int descriptor;
  ManualClock clock;
};

// What a terminal shows in the end: complete lines, and the unfinished last one.
std::vector<std::string> screen(const std::string& output) {
  std::vector<std::string> rows(1);
  for (size_t i = 0; i < output.size(); ++i) {
    if (output.compare(i, kErase.size(), kErase) == 0) {
      rows.back().clear();
      i += kErase.size() - 1;
    } else if (output[i] == '\n') {
      rows.emplace_back();
    } else {
      rows.back() += output[i];
    }
  }
  return rows;
}

TEST_F(ConsoleTest, StepLine) {
  Console console(piped(300), clock);
  console.step(ordinary_record(119));
  EXPECT_EQ(output(), "step  120/300  loss  2.3412  grad   0.840   64.1 ms   31.9k tok/s  MFU 41.3%\n");
}

TEST_F(ConsoleTest, StepLineHasWhatTheTerminalHasRoomFor) {
  const std::string whole =
      "step  120/300  loss  2.3412  grad   0.840  lr 2.93e-03   64.1 ms   31.9k tok/s    0.21 TFLOP/s  MFU 41.3%  eta 0:12\n";
  size_t shown = 0;
  for (int columns = 66; columns <= 130; ++columns) {
    TemporaryFolder here;
    const int file = open((here / "out").c_str(), O_WRONLY | O_CREAT, 0600);
    ConsoleOptions options = piped(300);
    options.descriptor = file;
    options.terminal.columns = columns;
    Console(options, clock).step(ordinary_record(119));
    close(file);
    const std::string line = contents_of(here / "out");
    EXPECT_LE(std::ssize(line) - 1, columns);
    EXPECT_GE(line.size(), shown) << "a wider terminal shows no less";
    shown = line.size();
    EXPECT_EQ(line == whole, columns >= std::ssize(whole) - 1) << columns;
  }
}

TEST_F(ConsoleTest, LongInformationIsWrappedAndWarningsStayInOneLine) {
  Console console(piped(10), clock);
  console.message(Severity::info, "memory  " + std::string(60, 'a') + " " + std::string(60, 'b'));
  console.message(Severity::warning, std::string(60, 'a') + " " + std::string(60, 'b'));
  const auto all = lines();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1], "        " + std::string(60, 'b'));
  EXPECT_EQ(all[2], "warning: " + std::string(60, 'a') + " " + std::string(60, 'b'));
}

TEST_F(ConsoleTest, ColumnsStayAligned) {
  ConsoleOptions wide = piped(1000);
  wide.terminal.columns = 130;
  Console console(wide, clock);
  StepRecord record = ordinary_record(0);
  console.step(record);
  record.step = 998;
  record.loss = 11.0628;
  record.grad_norm = 59281;
  record.step_seconds = 25.4;
  record.tokens_per_second = 165'146;
  record.tflops_per_device = 692.98;
  record.mfu = 0.03;
  console.step(record);
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.grad_norm = 0.00012;
  record.tokens_per_second = 999;
  record.tflops_per_device = 0.0412;
  console.step(record);
  const auto all = lines();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_NE(all[2].find("loss     nan  grad 1.2e-04"), std::string::npos) << all[2];
  for (const char* word : {"loss", "grad", "lr", "tok/s", "FLOP/s", "MFU", "eta"}) {
    EXPECT_EQ(all[0].find(word), all[1].find(word)) << word;
    EXPECT_EQ(all[0].find(word), all[2].find(word)) << word;
  }
}

TEST_F(ConsoleTest, NoMfuWithoutAPeak) {
  Console console(piped(10), clock);
  StepRecord record = ordinary_record(0);
  record.mfu = 0;
  console.step(record);
  EXPECT_EQ(output().find("MFU"), std::string::npos);
}

TEST_F(ConsoleTest, ShowsEveryNthTheFirstTheLastAndWhatIsWrong) {
  Console console(piped(25, 10), clock);
  for (int64_t step = 0; step < 25; ++step) {
    StepRecord record = ordinary_record(step);
    if (step == 13) {
      record.skipped = true;
      record.nonfinite_where = "grad of blocks.1.mlp.up.weight is NaN";
    }
    if (step == 15) record.loss_outlier_sigma = 7.24;
    if (step == 16) record.grad_outlier_sigma = -6.5;
    console.step(record);
  }
  const auto all = lines();
  ASSERT_EQ(all.size(), 7u);
  EXPECT_EQ(all[0].substr(0, 11), "step   1/25");
  EXPECT_EQ(all[1].substr(0, 11), "step  10/25");
  EXPECT_TRUE(all[2].ends_with("  SKIPPED grad of blocks.1.mlp.up.weight is NaN")) << all[2];
  EXPECT_TRUE(all[3].ends_with("  loss +7.2 sigma")) << all[3];
  EXPECT_TRUE(all[4].ends_with("  grad -6.5 sigma")) << all[4];
  EXPECT_EQ(all[5].substr(0, 11), "step  20/25");
  EXPECT_EQ(all[6].substr(0, 11), "step  25/25");
}

TEST_F(ConsoleTest, ValidationLine) {
  Console console(piped(300), clock);
  console.validation({.steps_done = 120, .loss = 2.4012, .batches = 50, .seconds = 1.234});
  EXPECT_EQ(output(), "valid 120/300  loss  2.4012  perplexity 11.04  50 batches in 1.23 s\n");
}

TEST_F(ConsoleTest, APipeGetsNeitherBarNorColour) {
  {
    Console console(piped(5), clock);
    for (int64_t step = 0; step < 5; ++step) {
      StepRecord record = ordinary_record(step);
      record.skipped = true;
      console.step(record);
    }
    console.message(Severity::info, "a word");
  }
  EXPECT_EQ(output().find_first_of("\r\x1b"), std::string::npos);
  EXPECT_EQ(lines().size(), 6u);
}

TEST_F(ConsoleTest, ColourMarksWhatIsWrong) {
  ConsoleOptions options = piped(5);
  options.terminal.colour = true;
  Console console(options, clock);
  StepRecord record = ordinary_record(0);
  record.skipped = true;
  record.nonfinite_where = "loss is NaN";
  console.step(record);
  EXPECT_NE(output().find("\x1b[31mSKIPPED\x1b[0m loss is NaN"), std::string::npos);
}

TEST_F(ConsoleTest, BarIsTheLastLineAndFitsTheTerminal) {
  Console console(on_terminal(300), clock);
  console.step(ordinary_record(148));
  console.step(ordinary_record(149));
  const auto rows = screen(output());
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(rows[0].starts_with("step  149/300"));
  EXPECT_TRUE(rows[1].starts_with("step  150/300"));
  EXPECT_TRUE(rows[2].ends_with("] 150/300  50%  loss 2.3412  31.9k tok/s  eta 0:10")) << rows[2];
  EXPECT_EQ(rows[2].size(), 79u);
  const auto filled = std::ranges::count(rows[2], '=');
  const auto blank_before_bracket = std::count(rows[2].begin(), std::ranges::find(rows[2], ']'), ' ');
  EXPECT_LE(std::abs(filled - (blank_before_bracket + 1)), 1);  // half way; 1: the arrow's head
}

TEST_F(ConsoleTest, ANarrowTerminalGetsTheTextOnly) {
  ConsoleOptions options = on_terminal(300);
  options.terminal.columns = 20;
  Console console(options, clock);
  console.step(ordinary_record(149));
  EXPECT_EQ(screen(output()).back(), "150/300  50%  loss ");
}

TEST_F(ConsoleTest, BarIsRedrawnAtMostTenTimesASecond) {
  Console console(on_terminal(1000, 1000), clock);
  console.step(ordinary_record(0));  // the first step has a line
  const auto draws = [&] {
    const std::string text = output();
    return std::ranges::count(text, ']');
  };
  for (int64_t step = 1; step <= 500; ++step) {
    clock.now_seconds += 0.002;  // one second in all
    console.step(ordinary_record(step));
  }
  EXPECT_GE(draws(), 1 + 9);
  EXPECT_LE(draws(), 1 + 10);
}

TEST_F(ConsoleTest, MessagesDoNotTearTheBar) {
  Console console(on_terminal(300), clock);
  console.message(Severity::info, "before the first step");
  console.step(ordinary_record(0));
  console.message(Severity::info, "checkpoint saved");
  const auto rows = screen(output());
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0], "before the first step");
  EXPECT_TRUE(rows[1].starts_with("step    1/300"));
  EXPECT_EQ(rows[2], "checkpoint saved");
  EXPECT_TRUE(rows[3].starts_with("[>"));
}

TEST_F(ConsoleTest, MessagesFromThreadsStayWhole) {
  {
    Console console(on_terminal(300), clock);
    console.step(ordinary_record(0));
    std::vector<std::jthread> threads;
    for (char letter : {'a', 'b', 'c'}) {
      threads.emplace_back([&console, letter] {
        for (int i = 0; i < 50; ++i) console.message(Severity::info, std::string(40, letter));
      });
    }
  }
  const auto rows = screen(output());
  for (char letter : {'a', 'b', 'c'}) EXPECT_EQ(std::ranges::count(rows, std::string(40, letter)), 50);
}

TEST_F(ConsoleTest, TheBarIsGoneAtTheEnd) {
  {
    Console console(on_terminal(300), clock);
    console.step(ordinary_record(0));
  }
  EXPECT_EQ(screen(output()).back(), "");
}

TEST_F(ConsoleTest, AClosedOutputDoesNotMatter) {
  ConsoleOptions options = piped(3);
  options.descriptor = -1;
  Console console(options, clock);
  EXPECT_NO_THROW(console.step(ordinary_record(0)));
}

}  // namespace
}  // namespace trireme
