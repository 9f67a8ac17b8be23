#include "telemetry/csv.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "fixtures.h"

namespace trireme {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',')
      cells.emplace_back();
    else
      cells.back() += c;
  }
  return cells;
}

class Csv : public testing::Test {
 protected:
  std::vector<Row> rows() const {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    const std::vector<std::string> names = split(line);
    std::vector<Row> result;
    while (std::getline(file, line)) {
      const std::vector<std::string> cells = split(line);
      EXPECT_EQ(cells.size(), names.size()) << line;
      Row row;
      for (size_t i = 0; i < cells.size() && i < names.size(); ++i) row[names[i]] = cells[i];
      result.push_back(row);
    }
    return result;
  }
  static double number(const Row& row, const std::string& column) { return std::stod(row.at(column)); }
  static StepRecord timed(int64_t step, double seconds) {
    StepRecord record = ordinary_record(step);
    record.step_seconds = seconds;
    return record;
  }

  TemporaryFolder folder;
  std::string path = folder / "metrics.csv";
  // 8 samples a step: 8 TFLOP on two devices of 100 TFLOP/s.
  RateBasis rates{.flops_per_sample = 1e12, .devices = 2, .peak = {"a peak", 100}};
};

TEST_F(Csv, RatesAreOfTheStepsAfterTheFirst) {
  CsvSink sink(path, 0, rates, {});
  // Binary fractions, so that sums and differences are exact.
  sink.step(timed(0, 100));  // as slow as first steps are
  sink.step(timed(1, 0.5));
  sink.step(timed(2, 0.75));
  const std::vector<Row> all = rows();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].at("throughput/samples_per_sec"), "");
  EXPECT_EQ(all[0].at("throughput/device/mfu"), "");
  EXPECT_DOUBLE_EQ(number(all[1], "throughput/batches_per_sec"), 2);
  const Row& last = all[2];
  EXPECT_DOUBLE_EQ(number(last, "throughput/samples_per_sec"), 16 / 1.25);
  EXPECT_DOUBLE_EQ(number(last, "throughput/tokens_per_sec"), 2 * 2048 / 1.25);
  EXPECT_DOUBLE_EQ(number(last, "throughput/flops_per_sec"), 16e12 / 1.25);
  EXPECT_DOUBLE_EQ(number(last, "throughput/device/batches_per_sec"), 2 / 1.25 / 2);
  EXPECT_DOUBLE_EQ(number(last, "throughput/device/tokens_per_sec"), 2 * 2048 / 1.25 / 2);
  EXPECT_DOUBLE_EQ(number(last, "throughput/device/flops_per_sec"), 6.4e12);
  EXPECT_DOUBLE_EQ(number(last, "throughput/device/mfu"), 0.064);
  EXPECT_DOUBLE_EQ(number(last, "time/train"), 101.25);
  EXPECT_EQ(last.at("samples"), "24");
  EXPECT_EQ(last.at("reduced_train_loss"), "2.3412");
}

TEST_F(Csv, TheWindowIsFiftyStepsLong) {
  CsvSink sink(path, 0, rates, {});
  for (int64_t step = 0; step < 200; ++step) sink.step(timed(step, step < 100 ? 4 : 2));
  const std::vector<Row> all = rows();
  EXPECT_DOUBLE_EQ(number(all[99], "throughput/batches_per_sec"), 0.25);
  EXPECT_DOUBLE_EQ(number(all[100], "throughput/batches_per_sec"), 50 / (49 * 4.0 + 2));
  EXPECT_DOUBLE_EQ(number(all[149], "throughput/batches_per_sec"), 0.5);
  EXPECT_DOUBLE_EQ(number(all[199], "throughput/batches_per_sec"), 0.5);
}

TEST_F(Csv, StepsThatAreNotLoggedCountInTheTimes) {
  CsvSink sink(path, 0, rates, {});
  for (int64_t step = 0; step < 10; ++step) {
    StepRecord record = timed(step, 1);
    record.logged = step % 5 == 4;
    sink.step(record);
  }
  const std::vector<Row> all = rows();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].at("step"), "9");
  EXPECT_EQ(number(all[1], "time/train"), 10);
  EXPECT_EQ(number(all[1], "throughput/batches_per_sec"), 1);
}

TEST_F(Csv, AValidationHasARowOfItsOwn) {
  CsvSink sink(path, 0, rates, {});
  sink.step(timed(0, 1));
  sink.validation({.steps_done = 1, .loss = 2.5, .batches = 2, .seconds = 0.25});
  sink.step(timed(1, 1));
  const std::vector<Row> all = rows();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].at("step"), "0");
  EXPECT_EQ(all[1].at("val_loss"), "2.5");
  EXPECT_EQ(all[1].at("reduced_train_loss"), "");
  EXPECT_EQ(number(all[2], "time/val"), 0.25);
  EXPECT_EQ(number(all[2], "time/total"), 2.25);
  EXPECT_EQ(all[2].at("val_loss"), "");
}

TEST_F(Csv, ResumeKeepsEarlierRowsAndCountsTheTimeOn) {
  {
    CsvSink sink(path, 0, rates, {});
    for (int64_t step = 0; step < 6; ++step) sink.step(timed(step, 2));
  }
  std::ofstream(path, std::ios::app) << "6,0,56,2.3";  // torn
  {
    CsvSink sink(path, 4, rates, {});
    sink.step(timed(4, 3));
  }
  const std::vector<Row> all = rows();
  ASSERT_EQ(all.size(), 5u);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(number(all[i], "step"), static_cast<double>(i));
  EXPECT_EQ(number(all[4], "time/train"), 4 * 2 + 3);
}

TEST_F(Csv, AStartAtZeroStartsAnew) {
  for (int run = 0; run < 2; ++run) CsvSink(path, 0, rates, {}).step(timed(0, 1));
  EXPECT_EQ(rows().size(), 1u);
}

TEST_F(Csv, AFileWithOtherColumnsIsKeptUnderAnotherName) {
  std::ofstream(path) << "step,loss\n0,1\n";
  std::ofstream(folder / "metrics.1.csv") << "older still\n";
  CsvSink(path, 5, rates, {}).step(timed(5, 1));
  EXPECT_EQ(contents_of(folder / "metrics.1.csv"), "older still\n");
  EXPECT_EQ(contents_of(folder / "metrics.2.csv"), "step,loss\n0,1\n");
  EXPECT_EQ(rows().size(), 1u);
}

TEST_F(Csv, ALossThatIsNotFiniteIsWritten) {
  CsvSink sink(path, 0, rates, {});
  StepRecord record = timed(0, 1);
  record.loss = std::numeric_limits<double>::quiet_NaN();
  sink.step(record);
  EXPECT_EQ(rows().at(0).at("reduced_train_loss"), "nan");
}

}  // namespace
}  // namespace trireme
