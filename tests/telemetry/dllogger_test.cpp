#include "telemetry/dllogger.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <limits>
#include <vector>

#include "base/error.h"
#include "fixtures.h"
#include "support/golden_data.h"

namespace trireme {
namespace {

class Dllogger : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
    clock.now_unix = 1'727'486'493'241'469;
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> result;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) result.push_back(line);
    return result;
  }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> result;
    for (const std::string& line : lines()) {
      const nlohmann::json step = nlohmann::json::parse(line.substr(4)).at("step");
      if (step.is_number()) result.push_back(step.get<int64_t>());
    }
    return result;
  }
  void run(int64_t begin, int64_t end, double loss = 2) {
    DlloggerSink sink(path, {.first_step = begin}, {{"cfg/seed", 1234}}, notify, clock);
    for (int64_t step = begin; step < end; ++step) {
      StepRecord record = ordinary_record(step);
      record.loss = loss;
      sink.step(record);
    }
  }

  TemporaryFolder folder;
  std::string path = folder / "logs/dllogger.json";
  ManualClock clock;
  std::vector<std::string> notices;
  Notify notify = [this](Severity, std::string_view text) { notices.emplace_back(text); };
};

TEST_F(Dllogger, ParametersAsPythonWritesThem) {
  const LoggedParameters parameters{{"cfg/seed", 1234},
                                    {"cfg/optim/lr", 9e-5},
                                    {"cfg/weight", 1.0},
                                    {"cfg/big", 1e16},
                                    {"cfg/fp8", true},
                                    {"cfg/kv_channels", nullptr},
                                    {"cfg/trace", nlohmann::json::parse(R"(["nvtx", "cuda"])")},
                                    {"cfg/empty", nlohmann::json::array()},
                                    {"cfg/name", "caf\xc3\xa9 \"x\"\n"}};
  clock.now_seconds = 10;
  DlloggerSink sink(path, {}, parameters, notify, clock);
  EXPECT_EQ(contents_of(path),
            R"(DLLL {"timestamp": "1727486493.241469", "datetime": "2024-09-28 01:21:33.241469", "elapsedtime": "0.0", )"
            R"("type": "LOG", "step": "PARAMETER", "data": {"cfg/seed": 1234, "cfg/optim/lr": 9e-05, "cfg/weight": 1.0, )"
            R"("cfg/big": 1e+16, "cfg/fp8": true, "cfg/kv_channels": null, "cfg/trace": ["nvtx", "cuda"], "cfg/empty": [], )"
            R"("cfg/name": "caf\u00e9 \"x\"\n"}})"
            "\n");
}

TEST_F(Dllogger, StepLine) {
  DlloggerSink sink(path, {}, {}, notify, clock);
  StepRecord record;
  record.step = 47;
  record.consumed_samples = 98304;
  record.loss = 7.890198707580566;
  record.learning_rate = 9e-5 * 47 / 115;  // f64; the log shows the nearest f32
  record.backward_seconds = 5.8507917856331915e-05;
  record.grad_norm = 8.800999641418457;
  record.mean_step_seconds = 32.46758270263672;
  record.step_seconds = 25.5;
  clock.now_unix += 1'871'563'161;
  clock.now_seconds = 1905.1;
  sink.step(record);
  EXPECT_EQ(lines().at(1),
            R"(DLLL {"timestamp": "1727488364.80463", "datetime": "2024-09-28 01:52:44.804630", "elapsedtime": "1905.1", )"
            R"("type": "LOG", "step": 47, "data": {"reduced_train_loss": 7.890198707580566, "lr": 3.6782606912311167e-05, )"
            R"("global_step": 47.0, "consumed_samples": 98304.0, "train_backward_timing in s": 5.8507917856331915e-05, )"
            R"("grad_norm": 8.800999641418457, "train_step_timing in s": 32.46758270263672, )"
            R"("train_step_timing_raw in s": 25.5, "epoch": 0, "steady_step": 1}})");
}

TEST_F(Dllogger, WhatIsNotFiniteIsWrittenAsPythonReadsIt) {
  DlloggerSink sink(path, {}, {}, notify, clock);
  StepRecord record = ordinary_record(0);
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.grad_norm = std::numeric_limits<double>::infinity();
  sink.step(record);
  EXPECT_NE(lines().at(1).find(R"("reduced_train_loss": NaN,)"), std::string::npos);
  EXPECT_NE(lines().at(1).find(R"("grad_norm": Infinity,)"), std::string::npos);
}

TEST_F(Dllogger, ValidationLossStandsInTheLastStepBeforeIt) {
  DlloggerSink sink(path, {}, {}, notify, clock);
  sink.step(ordinary_record(0));
  sink.validation({.steps_done = 1, .loss = 2.5, .batches = 1, .seconds = 1});
  ASSERT_EQ(lines().size(), 2u);  // readers take every line for a step
  StepRecord unlogged = ordinary_record(1);
  unlogged.logged = false;
  sink.step(unlogged);
  sink.validation({.steps_done = 2, .loss = 2.25, .batches = 1, .seconds = 1});
  sink.step(ordinary_record(2));
  ASSERT_EQ(lines().size(), 4u);
  const std::vector<std::optional<double>> expected{2.5, 2.25, std::nullopt};
  for (size_t step = 0; step < 3; ++step) {
    const auto record = nlohmann::json::parse(lines().at(step + 1).substr(4));
    EXPECT_EQ(record.at("step"), step);
    EXPECT_TRUE(record.at("data").contains("train_step_timing in s"));
    const auto& data = record.at("data");
    EXPECT_EQ(data.contains("val_loss") ? std::optional(data.at("val_loss").get<double>()) : std::nullopt, expected[step]);
  }
}

TEST_F(Dllogger, EveryStepIsInTheFileAtOnce) {
  DlloggerSink sink(path, {}, {}, notify, clock);
  for (int64_t step = 0; step < 3; ++step) {
    sink.step(ordinary_record(step));
    EXPECT_EQ(steps().back(), step);
    EXPECT_EQ(contents_of(path).back(), '\n');
  }
}

TEST_F(Dllogger, ResumeKeepsEarlierStepsAndRepeatsNone) {
  run(0, 10);
  const std::string before = contents_of(path);
  run(7, 12, /*loss=*/1);  // the checkpoint was made after 7 steps
  EXPECT_EQ(steps(), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  const auto all = lines();
  EXPECT_EQ(all.size(), 13u);  // one line of parameters
  for (size_t i = 0; i < 8; ++i) EXPECT_NE(before.find(all[i]), std::string::npos) << i;
  for (size_t i = 8; i < 13; ++i) EXPECT_NE(all[i].find("\"reduced_train_loss\": 1.0"), std::string::npos) << i;
}

TEST_F(Dllogger, ResumeAfterATornLineAndALossThatJsonCannotHold) {
  run(0, 3, std::numeric_limits<double>::quiet_NaN());
  const std::string whole = contents_of(path);
  std::ofstream(path, std::ios::app) << "DLLL {\"timestamp\": \"17274";
  run(5, 5);
  EXPECT_EQ(contents_of(path), whole);
}

TEST_F(Dllogger, ResumeWithoutAnOldFileWritesTheParameters) {
  run(5, 6);
  EXPECT_NE(lines().at(0).find("PARAMETER"), std::string::npos);
  EXPECT_EQ(steps(), std::vector<int64_t>{5});
}

TEST_F(Dllogger, AStartAtZeroStartsAnew) {
  run(0, 5);
  run(0, 2);
  EXPECT_EQ(steps(), (std::vector<int64_t>{0, 1}));
}

TEST_F(Dllogger, AFolderThatCannotBeIsSaidAtTheStart) {
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(DlloggerSink(folder / "file/dllogger.json", {}, {}, notify, clock), Failure);
}

// A limit on the size of files stands for the full disk: the write that crosses it goes through in part, later ones fail.
TEST_F(Dllogger, AFullDiskCostsRecordsButNeitherTheRunNorTheFile) {
  DlloggerSink sink(path, {}, {}, notify, clock);
  sink.step(ordinary_record(0));
  const auto full_at = contents_of(path).size() + 100;

  rlimit unlimited{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limited = unlimited;
  limited.rlim_cur = full_at;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
  sink.step(ordinary_record(1));
  sink.step(ordinary_record(2));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
  std::signal(SIGXFSZ, old_handler);
  sink.step(ordinary_record(3));

  EXPECT_EQ(steps(), (std::vector<int64_t>{0, 3}));  // parses every line: none is torn
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find(path), std::string::npos);
}

// The log of a real run of the reference system, written again from its own numbers, must be the same text, our raw step time
// and the spaces at the ends of pages aside.
TEST_F(Dllogger, RewritesTheReferenceLog) {
  std::ifstream file(golden_data() / "dllogger-gpt3-175b.json");

  const auto microseconds = [](const std::string& seconds) { return std::llround(std::stold(seconds) * 1'000'000); };
  std::optional<DlloggerSink> sink;
  std::vector<std::string> expected;
  for (std::string line; std::getline(file, line);) {
    expected.push_back(line);
    const auto json = nlohmann::ordered_json::parse(line.substr(4));
    clock.now_unix = microseconds(json.at("timestamp"));
    const double elapsed = std::stod(json.at("elapsedtime").get<std::string>());
    const auto& data = json.at("data");
    if (!sink) {
      LoggedParameters parameters;
      for (const auto& [key, value] : data.items()) parameters.emplace_back(key, value);
      // The reference made its logger long before its first line, ours writes that line at once: the elapsed times differ by that
      // much.
      expected[0].replace(expected[0].find("32.927938"), 9, "0.0");
      clock.now_seconds = 0;
      sink.emplace(path, DlloggerOptions{}, parameters, notify, clock);
      continue;
    }
    clock.now_seconds = elapsed;
    StepRecord record;
    record.step = json.at("step");
    record.loss = data.at("reduced_train_loss");
    record.learning_rate = data.at("lr");
    record.consumed_samples = static_cast<int64_t>(data.at("consumed_samples").get<double>());
    record.backward_seconds = data.at("train_backward_timing in s").get<double>();
    record.grad_norm = data.at("grad_norm");
    record.mean_step_seconds = data.at("train_step_timing in s");
    record.step_seconds = 1;
    sink->step(record);
  }
  std::vector<std::string> written = lines();
  for (std::string& line : written) {
    for (const std::string ours : {", \"train_step_timing_raw in s\": 1.0", ", \"steady_step\": 1"})
      if (const size_t at = line.find(ours); at != std::string::npos) line.erase(at, ours.size());
    line.erase(line.find_last_not_of(' ') + 1);  // what fills a page
  }
  ASSERT_EQ(written.size(), 51u);
  EXPECT_EQ(written, expected);
}

}  // namespace
}  // namespace trireme
