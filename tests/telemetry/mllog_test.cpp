#include "telemetry/mllog.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "fixtures.h"

namespace trireme {
namespace {

class MllogLines : public testing::Test {
 protected:
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> result;
    std::ifstream file(path);
    constexpr std::string_view kToken = ":::MLLOG ";
    for (std::string line; std::getline(file, line);) {
      EXPECT_TRUE(line.starts_with(kToken)) << line;
      result.push_back(nlohmann::json::parse(line.substr(kToken.size())));
    }
    return result;
  }
  nlohmann::json line_of(const std::string& key) const {
    for (const nlohmann::json& line : lines())
      if (line.at("key") == key) return line;
    ADD_FAILURE() << "no line has the key " << key;
    return {};
  }

  TemporaryFolder folder;
  std::string path = folder / "mllog.txt";
  ManualClock clock;
  MllogFacts facts{
      .global_batch_size = 8, .sequence_length = 256, .steps = 300, .warmup_steps = 30, .learning_rate = 2e-3, .seed = 1234};
};

TEST_F(MllogLines, EveryLineHasTheSixFieldsInOrder) {
  MllogSink sink(path, facts, {}, clock);
  sink.step(ordinary_record(0));
  sink.finish({});
  for (const nlohmann::json& line : lines()) {
    ASSERT_EQ(line.size(), 6u);
    EXPECT_EQ(line.at("namespace"), "");
    EXPECT_EQ(line.at("time_ms"), 1'700'000'000'000);
    EXPECT_TRUE(line.at("metadata").is_object());
    const std::set<std::string> types{"POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"};
    EXPECT_TRUE(types.contains(line.at("event_type")));
  }
  EXPECT_TRUE(contents_of(path).starts_with(
      R"(:::MLLOG {"namespace": "", "time_ms": 1700000000000, "event_type": "POINT_IN_TIME", "key": "global_batch_size", )"
      R"("value": 8, "metadata": {}})"
      "\n"));
}

TEST_F(MllogLines, KeysOfARun) {
  MllogSink sink(path, facts, {}, clock);
  sink.step(ordinary_record(9));
  sink.validation({.steps_done = 10, .loss = 2.69, .batches = 4, .seconds = 1});
  sink.finish({.outcome = RunOutcome::finished, .steps_done = 10});
  EXPECT_EQ(line_of("seed").at("value"), 1234);
  EXPECT_EQ(line_of("opt_base_learning_rate").at("value"), 2e-3);
  EXPECT_EQ(line_of("run_start").at("event_type"), "INTERVAL_START");
  const nlohmann::json stats = line_of("tracked_stats");
  EXPECT_DOUBLE_EQ(stats.at("value").at("throughput").get<double>(), 8 / 0.0641);
  EXPECT_EQ(stats.at("value").at("train_step_timing in s"), 0.0641);
  EXPECT_EQ(stats.at("metadata").at("step"), 80 * 256);  // tokens
  EXPECT_EQ(line_of("eval_accuracy").at("value"), 2.69);
  EXPECT_EQ(line_of("eval_accuracy").at("metadata").at("step"), 80 * 256);
  EXPECT_EQ(line_of("run_stop").at("event_type"), "INTERVAL_END");
  EXPECT_EQ(line_of("run_stop").at("metadata").at("status"), "success");
}

TEST_F(MllogLines, ARunThatDoesNotReachItsEndIsAborted) {
  MllogSink(path, facts, {}, clock).finish({.outcome = RunOutcome::stopped_by_signal});
  EXPECT_EQ(line_of("run_stop").at("metadata").at("status"), "aborted");
}

}  // namespace
}  // namespace trireme
