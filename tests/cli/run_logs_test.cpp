// The logs of one run beside each other: what one says the others say too, also after a kill and a resume.
#include <nlohmann/json.hpp>

#include "cli/small_run.h"
#include "report/readers.h"

namespace trireme {
namespace {

class RunLogsTest : public SmallRun {
 protected:
  // The logs of a run by their kind.
  std::vector<std::pair<std::string, RunLog>> logs(const std::string& run) const {
    std::vector<std::string> events;
    for (const auto& entry : fs::directory_iterator(folder_ / run))
      if (entry.path().filename().string().starts_with("events.out")) events.push_back(entry.path().string());
    std::ranges::sort(events);
    std::vector<std::pair<std::string, RunLog>> all;
    all.emplace_back("DLLogger", read_dllogger((folder_ / run / "dllogger/rank-0/dllogger.json").string()));
    all.emplace_back("TensorBoard", read_event_files(events));
    all.emplace_back("CSV", read_metrics_csv((folder_ / run / "metrics.csv").string()));
    return all;
  }
  static std::vector<std::pair<int64_t, float>> points(const RunLog& log, const std::string& name) {
    std::vector<std::pair<int64_t, float>> values;
    if (const Series* series = log.find(name))
      for (const Point& point : series->points) values.emplace_back(point.step, static_cast<float>(point.value));
    return values;
  }
};

TEST_F(RunLogsTest, ValidationLossesStandAtTheSameStepsInAllLogs) {
  const std::string keep = "exp_manager.checkpoint_callback_params.keep_last=9 trainer.val_check_interval=10 ";
  for (const char* every : {"trainer.log_every_n_steps=1", "trainer.log_every_n_steps=7"}) {
    fs::remove_all(folder_ / "run");
    ASSERT_EQ(run_program(train("run", keep + every)).status, 0);
    const auto uninterrupted = points(logs("run").front().second, "val_loss");
    ASSERT_EQ(uninterrupted.size(), 4u);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(uninterrupted[i].first, static_cast<int64_t>(10 * i + 9));
    // As a run that was killed between the checkpoint of step 20 and the next one.
    for (const int step : {30, 40}) fs::remove_all(shard("run", step).parent_path());
    for (const auto& [kind, log] : logs("run")) EXPECT_EQ(points(log, "val_loss"), uninterrupted) << kind;
    ASSERT_EQ(run_program(train("run", keep + every + " --resume")).status, 0);
    for (const auto& [kind, log] : logs("run")) EXPECT_EQ(points(log, "val_loss"), uninterrupted) << kind << " after a resume";
  }
}

TEST_F(RunLogsTest, BackwardHasATimeOfItsOwnInEveryStep) {
  ASSERT_EQ(run_program(train("run", "trainer.max_steps=8 trainer.val_check_interval=8")).status, 0);
  for (const auto& [kind, log] : logs("run")) {
    if (kind == "CSV") continue;
    const Series* backward = log.find("train_backward_timing in s");
    const Series* step = log.find("train_step_timing_raw in s");
    ASSERT_TRUE(backward != nullptr && step != nullptr) << kind;
    ASSERT_EQ(backward->points.size(), 8u) << kind;
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_GT(backward->points[i].value, 0) << kind;
      EXPECT_LT(backward->points[i].value, step->points[i].value) << kind;
    }
  }
}

// One run, one speed: at its end, in summary.json, and from its logs, all together or each alone.
TEST_F(RunLogsTest, EverythingAveragesTheSameSteadySteps) {
  ASSERT_EQ(run_program(train("run", "trainer.max_steps=24 trainer.val_check_interval=8")).status, 0);
  const auto summary = nlohmann::json::parse(text_of("run/summary.json"));
  EXPECT_EQ(summary.at("first_averaged_step"), 5);
  const std::string run = (folder_ / "run").string();
  const auto json_of = [](const std::string& arguments) {
    return nlohmann::json::parse(run_program(arguments + " 2>/dev/null").output).at("runs").at(0);
  };
  for (const std::string& figures :
       {"metrics " + run, "metrics " + run + "/dllogger/rank-0/dllogger.json", "metrics " + run + "/metrics.csv",
        "report " + run + " --output " + (folder_ / "page.html").string()}) {
    const auto found = json_of(figures + " --json");
    const auto& step = found.at("step_seconds");
    EXPECT_EQ(step.at("chosen"), "steady steps 5 to 23") << figures;
    EXPECT_EQ(step.at("averaged"), summary.at("averaged_steps")) << figures;
    // Logs hold 24 bits of each time.
    for (const auto& [name, of_summary] : {std::pair{"mean", "mean"}, {"median", "median"}, {"least", "min"}, {"most", "max"}}) {
      const double expected = summary.at("step_seconds").at(of_summary);
      EXPECT_NEAR(step.at(name).get<double>(), expected, 1e-6 * expected) << figures << " " << name;
    }
    if (!found.at("tokens_per_second").is_null()) {
      const double expected = summary.at("tokens_per_second");
      EXPECT_NEAR(found.at("tokens_per_second").get<double>(), expected, 1e-6 * expected) << figures;
    }
  }
}

}  // namespace
}  // namespace trireme
