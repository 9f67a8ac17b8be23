#include "telemetry/telemetry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "fixtures.h"

namespace trireme {
namespace {

struct Collector final : Sink {
  std::vector<StepRecord> records;
  std::vector<std::string> messages;
  int validations = 0, finishes = 0;
  void step(const StepRecord& record) override { records.push_back(record); }
  void validation(const ValidationRecord&) override { ++validations; }
  void message(Severity, std::string_view text) override { messages.emplace_back(text); }
  void finish(const RunEnding&) override { ++finishes; }
};

StepRecord measured(int64_t step, double seconds) {
  StepRecord record;
  record.step = step;
  record.global_batch_size = 4;
  record.tokens = 400;
  record.step_seconds = seconds;
  record.loss = 3;
  record.grad_norm = 1;
  return record;
}

TEST(Telemetry, RatesComeFromTheStepAlone) {
  Telemetry telemetry({.rates = {.flops_per_sample = 1e12, .devices = 2, .peak = {"a peak", 10}}});
  StepRecord record = measured(0, 0.5);
  telemetry.step(record);
  EXPECT_EQ(record.tokens_per_second, 800);
  EXPECT_EQ(record.tflops_per_device, 4);  // 4 samples of 1 TFLOP in half a second on two devices
  EXPECT_EQ(record.mfu, 0.4);
}

// Until five steps are made, over those there are; then a slow first step drops out.
TEST(Telemetry, RunningMeanOverTheLastFive) {
  Telemetry telemetry({.timing_buffer = 5});
  const std::vector<double> seconds{100, 20, 30, 10, 40, 50, 20};
  const std::vector<double> means{100, 60, 50, 40, 40, 30, 30};
  for (size_t i = 0; i < seconds.size(); ++i) {
    StepRecord record = measured(static_cast<int64_t>(i), seconds[i]);
    telemetry.step(record);
    EXPECT_EQ(record.mean_step_seconds, means[i]) << i;
  }
}

TEST(Telemetry, NoBufferMeansTheStepItself) {
  Telemetry telemetry({.timing_buffer = 0});
  StepRecord record = measured(0, 3);
  telemetry.step(record);
  record = measured(1, 5);
  telemetry.step(record);
  EXPECT_EQ(record.mean_step_seconds, 5);
}

TEST(Telemetry, WarmUpIsFiveStepsOfThisProcessButNeverMoreThanHalf) {
  EXPECT_EQ(warm_up_steps(1), 0);
  EXPECT_EQ(warm_up_steps(4), 2);
  EXPECT_EQ(warm_up_steps(300), 5);
  Telemetry telemetry({.planned_steps = 20});
  for (int64_t i = 0; i < 20; ++i) {
    StepRecord record = measured(1000 + i, 1);  // resumed: the step number is no measure of warmth
    telemetry.step(record);
    EXPECT_EQ(record.warm_up, i < 5) << i;
  }
}

TEST(Telemetry, MarksOutliers) {
  Telemetry telemetry({});
  for (int64_t i = 0; i < 40; ++i) {
    StepRecord record = measured(i, 1);
    record.loss += 0.01 * static_cast<double>(i % 3);
    telemetry.step(record);
    EXPECT_FALSE(record.loss_outlier_sigma) << i;
  }
  StepRecord record = measured(40, 1);
  record.loss = 9;
  telemetry.step(record);
  EXPECT_TRUE(record.loss_outlier_sigma);
  EXPECT_FALSE(record.grad_outlier_sigma);
}

TEST(Telemetry, EverySinkGetsEverything) {
  Telemetry telemetry({});
  Collector& first = telemetry.add<Collector>();
  Collector& second = telemetry.add<Collector>();
  StepRecord record = measured(7, 1);
  telemetry.step(record);
  telemetry.validation({});
  telemetry.notify()(Severity::info, "a word");
  telemetry.finish({});
  for (const Collector* sink : {&first, &second}) {
    ASSERT_EQ(sink->records.size(), 1u);
    EXPECT_EQ(sink->records[0].step, 7);
    EXPECT_EQ(sink->records[0].tokens_per_second, 400);  // completed before it was passed on
    EXPECT_EQ(sink->validations, 1);
    EXPECT_EQ(sink->messages, std::vector<std::string>{"a word"});
    EXPECT_EQ(sink->finishes, 1);
  }
}

}  // namespace
}  // namespace trireme
