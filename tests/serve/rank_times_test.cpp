#include "serve/rank_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/clock.h"
#include "support/temporary_folder.h"
#include "telemetry/text_log.h"

namespace trireme {
namespace {

constexpr int64_t kEver = std::numeric_limits<int64_t>::max() - 1;

// As ranks write it, with a message between the steps.
std::string write_log(const TemporaryFolder& folder, int rank, int64_t steps, double seconds) {
  const std::string path = (folder / text_log_name(rank, rank)).string();
  TextLogSink sink(path, (folder / "errors.txt").string(), steps, {});
  for (int64_t step = 0; step < steps; ++step) {
    StepRecord record{.step = step, .loss = 2.5, .step_seconds = seconds * (step == steps / 2 ? 10 : 1)};
    record.mean_step_seconds = record.step_seconds;
    record.tokens_per_second = 1e5;
    sink.step(record);
    if (step % 7 == 0) sink.message(Severity::info, "saved step  3/9  with a [strange] text of 5.0 s ");
  }
  return path;
}

TEST(StepTimeIn, ReadsWhatOurLogsSay) {
  const auto time = [](const std::string& rest) { return step_time_in("[NeMo I 2026-11-15 06:39:23 train:3] " + rest); };
  EXPECT_EQ(time("step  120/300  loss  2.3412  grad   0.840  lr 2.93e-03   64.1 ms   31.9k tok/s").step, 119);
  EXPECT_NEAR(time("step  120/300  loss  2.3412  grad   0.840  lr 2.93e-03   64.1 ms   31.9k tok/s").seconds, 0.0641, 1e-12);
  EXPECT_EQ(time("step  1/300  loss  2.3412  grad   0.840  25.40 s   31.9k tok/s").seconds, 25.4);
  EXPECT_NEAR(time("step  1/300  loss  2.3412  grad   0.840  412.0 us   31.9k tok/s").seconds, 412e-6, 1e-12);
  for (const char* other :
       {"", "saved step 3", "step x/3 1.0 s ", "step 3", "step 3/4", "valid 3/4  loss 1  4 batches in 1.0 s "})
    EXPECT_EQ(time(other).step, -1) << other;
  EXPECT_EQ(step_time_in("step  120/300  64.1 ms ").step, -1);  // of another program
}

TEST(RankTimes, HasARowPerRankAndTheLongestStepOfAColumn) {
  const TemporaryFolder folder;
  const std::vector<std::string> logs{write_log(folder, 0, 1000, 0.1), write_log(folder, 1, 1000, 0.2),
                                      (folder / "none.txt").string()};
  const RankTimes all = read_rank_times(logs, 0, kEver);
  ASSERT_EQ(all.seconds.size(), 3u);
  EXPECT_FALSE(all.is_sampled);
  EXPECT_LE(all.steps.size(), 160u);
  EXPECT_EQ(all.steps.front(), 0);
  for (size_t column = 0; column < all.steps.size(); ++column) {
    const bool has_slow_step = all.steps[column] <= 500 && (column + 1 == all.steps.size() || all.steps[column + 1] > 500);
    EXPECT_NEAR(all.seconds[0][column], has_slow_step ? 1.0 : 0.1, 1e-6);
    EXPECT_NEAR(all.seconds[1][column], has_slow_step ? 2.0 : 0.2, 1e-6);
    EXPECT_TRUE(std::isnan(all.seconds[2][column]));
  }
  const RankTimes part = read_rank_times(logs, 490, 509);
  EXPECT_EQ(part.steps.size(), 20u);
  EXPECT_NEAR(part.seconds[1][10], 2.0, 1e-6);
  EXPECT_TRUE(read_rank_times(logs, 5000, 6000).steps.empty());
  EXPECT_TRUE(read_rank_times({}, 0, kEver).steps.empty());
}

TEST(RankTimes, SamplesALongLog) {
  const TemporaryFolder folder;
  const std::vector<std::string> logs{write_log(folder, 0, 20'000, 0.1)};
  const RankTimes all = read_rank_times(logs, 0, kEver);
  EXPECT_TRUE(all.is_sampled);
  EXPECT_GT(all.steps.back(), 19'000);
  int64_t known = 0;
  for (const float value : all.seconds[0]) known += !std::isnan(value);
  EXPECT_GT(known, std::ssize(all.steps) * 9 / 10);
}

}  // namespace
}  // namespace trireme
