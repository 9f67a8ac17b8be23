// The logs of one run beside each other: what one says the others say too, also after a kill and a resume.
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

}  // namespace
}  // namespace trireme
