// A run that is followed shows the same as a report of the whole log, whatever happens to the log meanwhile.
#include "serve/run_feed.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "report/logs.h"
#include "report/read_run.h"
#include "support/temporary_folder.h"
#include "telemetry/tensorboard.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kEver = std::numeric_limits<int64_t>::max();
constexpr double kLong = 60;

class RunFeedTest : public testing::Test {
 protected:
  RunFeed feed() { return RunFeed(find_run(folder_.path().string()).files, {}); }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::app | std::ios::binary) << text;
  }
  // Every quantity of the feed has the values that a report of the same folder has.
  void expect_as_reported(const RunFeed& feed) const {
    const RunLog log = read_run(folder_.path().string());
    const RunFacts facts = facts_of(log, {});
    for (size_t i = 0; i < static_cast<size_t>(Quantity::count_); ++i) {
      const auto quantity = static_cast<Quantity>(i);
      const std::optional<Series> series = find_quantity(log, facts, quantity);
      const ThinnedSeries followed = feed.of(quantity).groups(0, kEver, 1);
      ASSERT_EQ(followed.steps.size(), series ? series->points.size() : 0) << row_of(quantity).key;
      for (size_t point = 0; point < followed.steps.size(); ++point) {
        EXPECT_EQ(followed.steps[point], series->points[point].step);
        EXPECT_EQ(static_cast<float>(followed.values[point]), static_cast<float>(series->points[point].value));
      }
    }
  }

  TemporaryFolder folder_;
};

TEST_F(RunFeedTest, FollowsADlloggerFileByteByByte) {
  const std::string text = nemo_log(40);
  folder_.write("dllogger.json", text.substr(0, 10));
  RunFeed feed = this->feed();
  for (size_t at = 10; at < text.size(); at += 97) {
    append("dllogger.json", text.substr(at, 97));
    feed.update(kLong);
  }
  append("dllogger.json", "DLLL {\"torn");
  feed.update(kLong);
  EXPECT_EQ(feed.steps_done(), 40);
  EXPECT_EQ(feed.facts().tokens_per_step(), 64);
  EXPECT_TRUE(feed.is_whole());
  expect_as_reported(feed);
  EXPECT_FALSE(feed.update(kLong));  // nothing new
  EXPECT_EQ(feed.tokens().back().value, 40 * 64);
}

// LitGPT's step time is a difference of rows, which may come one at a time.
TEST_F(RunFeedTest, FollowsLitgptRowByRow) {
  folder_.write("hyperparameters.yaml", "train: {global_batch_size: 4, max_seq_length: 8}\n");
  folder_.write("metrics.csv", "epoch,step,throughput/device/mfu,time/train,time/total,train_loss,val_loss\n");
  RunFeed feed = this->feed();
  for (int step = 0; step < 30; ++step) {
    append("metrics.csv", fmt::format(",{},{},{},{},,\n", step, step > 5 ? "0.4" : "", 2.5 * step, 3.0 * step));
    feed.update(kLong);
    append("metrics.csv", fmt::format("0,{},,,,{},{}\n", step, 10.0 - step, step % 10 == 9 ? "9.5" : ""));
    feed.update(kLong);
  }
  EXPECT_EQ(feed.of(Quantity::step_seconds).back().value, 2.5);
  EXPECT_EQ(feed.elapsed().back().value, 87);
  expect_as_reported(feed);
}

TEST_F(RunFeedTest, FollowsEventFilesThroughARestart) {
  const auto write = [&](int64_t first, int64_t end) {
    TensorboardSink sink(folder_.path().string(), {.first_step = first}, {});
    for (int64_t step = first; step < end; ++step) {
      StepRecord record{.step = step, .loss = static_cast<double>(10 * first + step)};
      record.mean_step_seconds = record.step_seconds = 0.5;
      sink.step(record);
    }
    return sink.path();
  };
  write(0, 20);
  RunFeed feed = this->feed();
  feed.update(kLong);
  EXPECT_EQ(feed.steps_done(), 20);
  write(15, 18);  // back to step 15, in another file
  feed.set_files(find_run(folder_.path().string()).files);
  feed.update(kLong);
  EXPECT_EQ(feed.steps_done(), 18);
  EXPECT_EQ(feed.of(Quantity::loss).back().value, 167);
  expect_as_reported(feed);
}

TEST_F(RunFeedTest, StartsAgainWhenTheLogIsShortenedOrReplaced) {
  folder_.write("dllogger.json", nemo_log(30));
  RunFeed feed = this->feed();
  feed.update(kLong);
  const int64_t generation = feed.generation();

  // A resumed run removes the lines of the steps that it repeats and goes on; it may be longer again before anybody looks.
  std::string resumed = nemo_log(20);
  for (int step = 20; step < 40; ++step) resumed += nemo_step(step, 5, 1);
  const auto keep_inode = [&](const std::string& text) { std::ofstream(folder_ / "dllogger.json", std::ios::trunc) << text; };
  keep_inode(resumed);
  feed.update(kLong);
  EXPECT_GT(feed.generation(), generation);
  expect_as_reported(feed);
  keep_inode(nemo_log(3));
  feed.update(kLong);
  expect_as_reported(feed);
  fs::remove(folder_ / "dllogger.json");
  feed.update(kLong);
  EXPECT_EQ(feed.steps_done(), 3);  // what was read stays
  folder_.write("dllogger.json", nemo_log(7));
  feed.update(kLong);
  EXPECT_EQ(feed.steps_done(), 7);
}

TEST_F(RunFeedTest, ChangesToABetterLog) {
  folder_.write("metrics.csv", "step,loss\n1,2\n");
  RunFeed feed = this->feed();
  feed.update(kLong);
  EXPECT_EQ(feed.of(Quantity::loss).size(), 1u);
  folder_.write("dllogger.json", nemo_log(5));
  feed.set_files(find_run(folder_.path().string()).files);
  feed.update(kLong);
  EXPECT_EQ(feed.of(Quantity::loss).size(), 5u);
}

// A name that is preferred to the one that was taken for the quantity so far.
TEST_F(RunFeedTest, ABetterSeriesReplacesTheOneBefore) {
  std::string text;
  for (int step = 0; step < 10; ++step) text += dllogger_line(std::to_string(step), "\"loss\": 1, \"memory_allocated\": 5");
  folder_.write("dllogger.json", text);
  RunFeed feed = this->feed();
  feed.update(kLong);
  append("dllogger.json", dllogger_line("10", "\"loss\": 1, \"memory_allocated\": 5, \"peak_memory_usage\": 7"));
  feed.update(kLong);
  expect_as_reported(feed);
  append("dllogger.json", dllogger_line("11", "\"loss\": 1, \"memory_allocated\": 5, \"peak_memory_usage\": 8"));
  feed.update(kLong);
  expect_as_reported(feed);
}

TEST_F(RunFeedTest, BadFilesAreNotesAndNeverMore) {
  folder_.write("metrics.csv", "a,b\n1,2\n");
  folder_.write("hparams.yaml", "a: [1\n");
  RunFeed feed = this->feed();
  feed.update(kLong);
  feed.update(kLong);
  ASSERT_EQ(feed.notes().size(), 2u);
  EXPECT_TRUE(contains(feed.notes()[1], "no column that numbers its rows"));
  EXPECT_EQ(feed.steps_done(), std::nullopt);
}

// One line of another program, or of none, that never ends; names that never repeat.
TEST_F(RunFeedTest, NonsenseEndsInTime) {
  folder_.write("dllogger.json", nemo_log(3) + std::string(size_t{80} << 20, 'x'));
  RunFeed feed = this->feed();
  for (int i = 0; i < 100 && !feed.is_whole(); ++i) feed.update(kLong);
  EXPECT_TRUE(feed.is_whole());
  EXPECT_EQ(feed.steps_done(), 3);
  ASSERT_EQ(feed.notes().size(), 1u);
  EXPECT_TRUE(contains(feed.notes()[0], "there is no whole record at byte"));

  std::string names;
  for (int i = 0; i < 60'000; ++i) names += dllogger_line(std::to_string(i), fmt::format("\"loss\": 1, \"name {}\": 2", i));
  folder_.write("dllogger.json", names);
  feed.update(kLong);
  EXPECT_EQ(feed.steps_done(), 60'000);
}

TEST_F(RunFeedTest, ReadsALongLogPieceByPiece) {
  std::string text = nemo_parameters();
  for (int step = 0; step < 20'000; ++step) text += nemo_step(step, 2, 1);
  folder_.write("dllogger.json", text);
  RunFeed feed = this->feed();
  feed.update(0);
  EXPECT_GT(feed.of(Quantity::loss).size(), 0u);
  EXPECT_FALSE(feed.is_whole());
  EXPECT_LT(feed.share_read(), 1);
  while (!feed.is_whole()) feed.update(0);
  EXPECT_EQ(feed.steps_done(), 20'000);
}

}  // namespace
}  // namespace trireme
