#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fixtures.h"
#include "telemetry/summary.h"

namespace trireme {
namespace {

const RateBasis kRates{.flops_per_sample = 1e12, .devices = 2, .peak = {"measured here", 100}};

StepRecord timed(int64_t step, double seconds) {
  StepRecord record = ordinary_record(step);
  record.step_seconds = seconds;
  return record;
}

TEST(Summary, AveragesOrdinaryStepsAndCountsTheOthersByTheirFirstReason) {
  SummarySink sink(kRates, 20);
  const auto add = [&](auto&& change) {
    StepRecord record = timed(0, 1000);  // would show in every average
    change(record);
    sink.step(record);
  };
  add([](StepRecord& r) { r.warm_up = true; });
  add([](StepRecord& r) { r.warm_up = true, r.validation_loss = 2.0; });
  add([](StepRecord& r) { r.profiled = true, r.warm_up = true; });
  add([](StepRecord& r) { r.validation_loss = 2.0, r.after_checkpoint = true; });
  add([](StepRecord& r) { r.after_checkpoint = true; });
  add([](StepRecord& r) { r.skipped = true, r.warm_up = true, r.profiled = true; });
  for (int64_t i = 1; i <= 20; ++i) sink.step(timed(i, static_cast<double>(i)));

  const Summary summary = sink.summary({});
  EXPECT_EQ(summary.steps, 26);
  EXPECT_EQ(summary.averaged, 20);
  EXPECT_EQ(summary.left_out, (std::array<int64_t, kLeftOutReasons>{1, 1, 2, 1, 1}));
  EXPECT_EQ(summary.mean_seconds, 10.5);
  EXPECT_EQ(summary.median_seconds, 10.5);
  EXPECT_EQ(summary.percentile95_seconds, 19);  // 19 of 20 steps took no longer
  EXPECT_EQ(summary.least_seconds, 1);
  EXPECT_EQ(summary.most_seconds, 20);
  EXPECT_EQ(summary.tokens_per_second, 20 * 2048 / 210.0);
  EXPECT_DOUBLE_EQ(summary.tflops_per_device, 20 * 8 / 210.0 / 2);
  EXPECT_DOUBLE_EQ(summary.mfu, 20 * 8 / 210.0 / 2 / 100);
}

TEST(Summary, Text) {
  ManualClock clock;
  SummarySink sink(kRates, 10, clock);
  for (int64_t step = 100; step < 104; ++step) {
    StepRecord record = timed(step, 0.5);
    record.warm_up = step == 100;
    sink.step(record);
  }
  sink.validation({.steps_done = 104, .loss = 2.4012, .batches = 5, .seconds = 1});
  clock.now_seconds = 75;
  RunEnd end;
  end.memory_announced = int64_t{3} << 29;
  end.ranks = {{.rank = 0, .mean_seconds = 0.5, .memory_bytes = 5},
               {.rank = 1, .mean_seconds = 0.625, .memory_bytes = int64_t{1} << 31}};
  end.places = {{"checkpoint", "runs/demo/step-104"}, {"log", "runs/demo/dllogger.json"}};
  end.next_command = "trireme generate runs/demo";
  EXPECT_EQ(
      sink.summary(end).text(),
      "done    4 steps, 8.2k tokens in 1:15 (104 steps since the run began); loss 2.3412, validation 2.4012 after step 104\n"
      "speed   500.0 ms per step (median 500.0 ms, 95th percentile 500.0 ms, slowest rank 1 with 625.0 ms), 4.1k tokens/s; mean "
      "of "
      "3 steady steps, 101 to 103; left out: 1 warm-up\n"
      "rates   8.00 TFLOP/s per device by the full formula, MFU 8.0% of 100.00 TFLOP/s (measured here)\n"
      "memory  announced 1.5 GiB, measured peak 2.0 GiB\n"
      "files   checkpoint runs/demo/step-104, log runs/demo/dllogger.json\n"
      "next    trireme generate runs/demo\n");
}

TEST(Summary, PutsThePredictionBesideTheMedian) {
  SummarySink sink(kRates, 3);
  RunEnd end;
  end.prediction = {.on = "mars", .seconds = 1.8, .parts = {{"compute", 1.5}, {"bubble", 0.3}}, .parts_text = "compute 1.5 s"};
  EXPECT_EQ(end.prediction->text(), "a step takes 1.80 s on mars: compute 1.5 s");
  EXPECT_NE(sink.summary(end).text().find("plan    predicted 1.80 s per step; no step was measured\n"), std::string::npos);
  EXPECT_TRUE(sink.summary(end).json().at("plan").at("measured_s").is_null());
  for (const double seconds : {1.0, 2.0, 9.0}) sink.step(timed(std::llround(seconds), seconds));
  EXPECT_NE(sink.summary(end).text().find("plan    predicted 1.80 s per step, measured 2.00 s: -10.0%\n"), std::string::npos);
  const auto plan = sink.summary(end).json().at("plan");
  EXPECT_EQ(plan.at("parts_s").at("bubble"), 0.3);
  EXPECT_EQ(plan.at("measured_s"), 2.0);
  EXPECT_NEAR(plan.at("error_pct").get<double>(), -10, 1e-9);
}

TEST(Summary, ARunWithNothingToAverageSaysSo) {
  SummarySink sink(kRates, 1);
  StepRecord record = timed(0, 1);
  record.skipped = true;
  sink.step(record);
  const Summary summary = sink.summary({});
  EXPECT_NE(summary.text().find("speed   no step to average; left out: 1 skipped\n"), std::string::npos);
  EXPECT_EQ(summary.text().find("rates"), std::string::npos);
  EXPECT_TRUE(summary.json().at("mfu").is_null());
  EXPECT_TRUE(summary.json().at("final_loss").is_null());
}

TEST(Summary, FinalLossIsOfTheLastStepThatCounted) {
  SummarySink sink(kRates, 2);
  StepRecord record = timed(0, 1);
  record.loss = 2;
  sink.step(record);
  record.skipped = true;
  record.loss = std::numeric_limits<double>::quiet_NaN();
  sink.step(record);
  EXPECT_EQ(sink.summary({}).final_loss, 2);
}

TEST(Summary, JsonFile) {
  const TemporaryFolder folder;
  SummarySink sink(kRates, 2);
  StepRecord record = timed(0, 0.5);
  record.data_wait_seconds = 0.25;
  sink.step(record);
  RunEnd end;
  end.places = {{"log", "runs/demo/dllogger.json"}};
  const std::string path = folder / "summary.json";
  write_report(sink.summary(end).json(), path, {});
  const auto json = nlohmann::json::parse(contents_of(path));
  EXPECT_EQ(json.at("averaged_steps"), 1);
  EXPECT_EQ(json.at("step_seconds").at("median"), 0.5);
  EXPECT_EQ(json.at("data_wait").at("steps"), 1);
  EXPECT_EQ(json.at("data_wait").at("seconds"), 0.25);
  EXPECT_EQ(json.at("left_out_steps").at("after_a_validation"), 0);
  EXPECT_EQ(json.at("flops_formula"), "full");
  EXPECT_EQ(json.at("peak_tflops_per_device"), 100);
  EXPECT_EQ(json.at("places").at("log"), "runs/demo/dllogger.json");
  EXPECT_TRUE(json.at("validation_loss").is_null());
}

TEST(Summary, AFileThatCannotBeWrittenIsOnlySaid) {
  std::string said;
  SummarySink sink(kRates, 1);
  const TemporaryFolder folder;
  write_report(sink.summary({}).json(), folder / "no/such/folder/summary.json",
               [&](Severity, std::string_view text) { said = text; });
  EXPECT_NE(said.find("summary.json"), std::string::npos);
}

}  // namespace
}  // namespace trireme
