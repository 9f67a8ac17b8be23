// The account of a run's time: every microsecond once, over attempts that end in every way.
#include "telemetry/goodput.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

constexpr int64_t kSecond = 1'000'000;

TimeByUse used(int64_t start_up, int64_t step, int64_t checkpoint = 0) {
  TimeByUse times;
  times[TimeUse::start_up] = start_up * kSecond;
  times[TimeUse::step] = step * kSecond;
  times[TimeUse::checkpoint] = checkpoint * kSecond;
  return times;
}

int64_t seconds(const RunTime& run, TimeUse use) { return run.times[use] / kSecond; }

// Starts at 100 s, trains from step 0, saves after step 10, and is killed in step 18, 40 s later.
RunAttempt first_attempt() {
  return {.number = 1,
          .started = 100 * kSecond,
          .ranks = 4,
          .first_step = 0,
          .steps_done = 17,
          .times = used(3, 34, 2),
          .marks = {{.step = 10, .times = used(3, 20, 1)}},
          .ending = {}};
}

RunAttempt next_attempt(const RunAttempt& before, int64_t started, int64_t first_step, int64_t steps) {
  return {.number = before.number + 1,
          .started = started * kSecond,
          .ranks = 4,
          .first_step = first_step,
          .steps_done = first_step + steps,
          .times = used(2, steps * 2),
          .marks = {},
          .ending = {}};
}

TEST(Goodput, WhatComesAfterTheCheckpointIsLost) {
  RunAttempt first = first_attempt();
  first.ending = {.at = 150 * kSecond, .status = 1, .unnoticed = 9 * kSecond, .reason = "rank 2 hangs"};
  const RunAttempt second = next_attempt(first, 157, 10, 5);
  const RunTime run = account_of(std::array{first, second});
  EXPECT_EQ(seconds(run, TimeUse::start_up), 3 + 2);
  EXPECT_EQ(seconds(run, TimeUse::step), 20 + 10);
  EXPECT_EQ(seconds(run, TimeUse::checkpoint), 1);
  EXPECT_EQ(seconds(run, TimeUse::lost_work), 14 + 1 + 2) << "7 steps, a save, and 2 s of the step that was under way";
  EXPECT_EQ(seconds(run, TimeUse::detection), 9);
  EXPECT_EQ(seconds(run, TimeUse::restart), 7);
  EXPECT_EQ(run.lost_steps, 7);
  EXPECT_EQ(run.attempts, 2);
  EXPECT_EQ(run.times.total(), second.clock() - first.started);
}

TEST(Goodput, AnAttemptThatLeftNoEndIsFollowedByARestart) {
  const RunAttempt first = first_attempt(), second = next_attempt(first, 145, 10, 5);
  const RunTime run = account_of(std::array{first, second});
  EXPECT_EQ(seconds(run, TimeUse::restart), 145 - 139);
  EXPECT_EQ(seconds(run, TimeUse::lost_work), 15);
  EXPECT_EQ(run.times.total(), second.clock() - first.started);
}

TEST(Goodput, AStopOnRequestLosesNothing) {
  RunAttempt first = first_attempt();
  first.marks.push_back({.step = 17, .times = first.times});
  first.ending = {.at = 139 * kSecond, .status = 75, .unnoticed = 0, .reason = "SIGTERM"};
  const RunAttempt second = next_attempt(first, 1000, 17, 5);
  const RunTime run = account_of(std::array{first, second});
  EXPECT_EQ(seconds(run, TimeUse::stopped), 1000 - 139);
  EXPECT_EQ(seconds(run, TimeUse::lost_work), 0);
  EXPECT_EQ(run.lost_steps, 0);
  EXPECT_EQ(run.times.total(), second.clock() - first.started);
}

// The second attempt saved nothing, and the third finds the checkpoint of the first damaged.
TEST(Goodput, WorkIsLostOnlyOnce) {
  const RunAttempt first = first_attempt(), second = next_attempt(first, 145, 10, 5), third = next_attempt(second, 160, 10, 5),
                   fourth = next_attempt(third, 180, 0, 40);
  const RunTime three = account_of(std::array{first, second, third});
  EXPECT_EQ(three.lost_steps, 7 + 5);
  EXPECT_EQ(seconds(three, TimeUse::step), 20 + 10);
  const RunTime run = account_of(std::array{first, second, third, fourth});
  EXPECT_EQ(run.lost_steps, 17 + 5 + 5);
  EXPECT_EQ(seconds(run, TimeUse::step), 80);
  EXPECT_EQ(seconds(run, TimeUse::start_up), 3 + 2 + 2 + 2);
  EXPECT_EQ(run.times.total(), fourth.clock() - first.started);
}

TEST(Goodput, AnAttemptThatDidNotTrainIsStartUp) {
  RunAttempt second = next_attempt(first_attempt(), 145, RunAttempt::kNone, 0);
  second.times = used(5, 0);
  const RunAttempt third = next_attempt(second, 155, 10, 5);
  const RunTime run = account_of(std::array{first_attempt(), second, third});
  EXPECT_EQ(seconds(run, TimeUse::start_up), 3 + 5 + 2);
  EXPECT_EQ(seconds(run, TimeUse::lost_work), 15);
  EXPECT_EQ(run.times.total(), third.clock() - first_attempt().started);
}

TEST(Goodput, AClockThatIsBehindTakesNothingAway) {
  const RunAttempt first = first_attempt(), second = next_attempt(first, 20, 10, 5);  // on a machine 2 minutes behind
  const RunTime run = account_of(std::array{first, second});
  EXPECT_EQ(seconds(run, TimeUse::restart), 0);
  EXPECT_EQ(run.times.total(), first.times.total() + second.times.total());
}

TEST(Goodput, TheFileSurvivesEverything) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / kGoodputName;
  EXPECT_TRUE(read_attempts_of_run(file).empty());
  RunAttempt first = first_attempt();
  write_attempt(file, first);
  first.ending = {.at = 150 * kSecond, .status = 1, .unnoticed = 1, .reason = std::string(5000, 'x') + "\n\xff"};
  first.marks.assign(RunAttempt::kMostMarks, {.step = INT64_MAX, .times = first.times});
  for (WorkMark& mark : first.marks) mark.times.microseconds.fill(INT64_MAX);
  write_attempt(file, first);                                                   // the longest there can be
  write_attempt(file, next_attempt(next_attempt(first, 1, 1, 1), 145, 10, 5));  // the line of the second could not be written
  const std::vector<RunAttempt> found = read_attempts_of_run(file);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].marks.size(), RunAttempt::kMostMarks);
  EXPECT_EQ(found[0].ending->at, 150 * kSecond);
  EXPECT_EQ(found[1].number, 3);
  EXPECT_EQ(found[1].times.microseconds, used(2, 10).microseconds);
  std::string text = read_file(file, 1 << 20);
  text.resize(text.size() - 10);
  text[0] = '?';
  atomic_write(file, bytes_of(text + "\n{}\n[1]\nnull\n"));
  EXPECT_EQ(read_attempts_of_run(file).size(), 1U);
}

TEST(Goodput, Text) {
  RunAttempt first = first_attempt();
  first.ending = {.at = 150 * kSecond, .status = 1, .unnoticed = 9 * kSecond, .reason = "rank 2 hangs"};
  const RunTime run = account_of(std::array{first, next_attempt(first, 157, 10, 5)});
  EXPECT_EQ(run.text(),
            "goodput 43.5% of 1:09 in 2 attempts: step 43.5%, checkpoint 1.4%, start-up 7.2%, lost work 24.6% (7 steps), "
            "detection 13.0%, restart 10.1%");
  const nlohmann::ordered_json json = run.json();
  EXPECT_EQ(json.at("attempts"), 2);
  EXPECT_EQ(json.at("lost_steps"), 7);
  int64_t total = 0;
  for (const auto& [use, microseconds] : json.at("microseconds").items()) total += microseconds.get<int64_t>();
  EXPECT_EQ(total, 69 * kSecond);
  EXPECT_EQ(json.at("wall_seconds"), 69.0);
}

}  // namespace
}  // namespace trireme
