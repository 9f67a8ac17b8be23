// The end of a run: what it did, its speed, and where its files are; as a few lines and as summary.json.
//
// Speed is averaged over the steady steps. A step is excluded, and counted by its first reason, if it was skipped (not finite),
// profiled, a warm-up step (warm_up_steps in telemetry.h), or directly after a validation or a checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "telemetry/flops.h"
#include "telemetry/goodput.h"
#include "telemetry/step_prediction.h"
#include "telemetry/step_record.h"
#include "telemetry/stragglers.h"

namespace trireme {

inline constexpr size_t kLeftOutReasons = static_cast<size_t>(LeftOut::count_);
const char* name_of(LeftOut reason);  // "skipped", "profiled", "warm-up", "after a validation", "after a checkpoint"

struct Place {
  std::string label, path;
};

struct StragglerNote {
  int64_t step = 0;
  StragglerFinding finding;
};

struct SaveTimes {
  int64_t count = 0;
  double exposed_seconds = 0;  // that the saves delayed training
  double most_exposed_seconds = 0;
};

struct RankEnd {
  int64_t rank = 0;
  double mean_seconds = 0;   // over the averaged steps, as measured on this rank
  int64_t memory_bytes = 0;  // peak memory in use; 0: unknown
};

// Facts that only the trainer knows at the end.
struct RunEnd {
  int64_t memory_announced = 0;  // bytes per device, announced before the run; 0: unknown
  std::vector<RankEnd> ranks;    // all ranks
  std::vector<Place> places;     // checkpoint, logs, ...
  std::string next_command;      // the suggested next command
  std::optional<StepPrediction> prediction = {};
  std::optional<RunTime> time = {};  // of all attempts
  std::vector<StragglerNote> stragglers = {};
  SaveTimes saves = {};
};

struct Summary {
  int64_t steps = 0;       // run by this process
  int64_t steps_done = 0;  // since the start of the run, including those before a resume
  int64_t consumed_samples = 0;
  int64_t tokens = 0;
  double wall_seconds = 0;
  std::optional<double> final_loss;             // of the last step that was not skipped
  std::optional<double> loss_scale;             // of the last step, in fp16
  std::optional<ValidationRecord> validation;   // the last validation
  std::optional<TaskScoresRecord> task_scores;  // the last ones

  int64_t averaged = 0;                           // steady steps; the rest of this group and the rates are over these
  int64_t first_averaged = 0, last_averaged = 0;  // counted from 0, as in the logs
  std::array<int64_t, kLeftOutReasons> left_out{};
  double mean_seconds = 0, median_seconds = 0, percentile95_seconds = 0, least_seconds = 0, most_seconds = 0;
  int64_t data_wait_steps = 0;   // steps that waited for data
  double data_wait_seconds = 0;  // total wait of these steps
  double tokens_per_second = 0;
  double tflops_per_device = 0;  // by the formula of `rates`
  double mfu = 0;
  double causal_tflops_per_device = 0;
  std::vector<double> averaged_seconds;  // in step order

  RateBasis rates;
  RunEnd end;

  const RankEnd* slowest_rank() const;  // nullptr if no rank is known
  int64_t most_memory() const;          // bytes on the rank that used most; 0: unknown

  std::string text() const;  // about six lines
  nlohmann::ordered_json json() const;
};

class SummarySink final : public Sink {
 public:
  SummarySink(const RateBasis& rates, int64_t planned_steps, const Clock& clock = system_clock());

  void step(const StepRecord& record) override;
  void validation(const ValidationRecord& record) override { summary_.validation = record; }
  void task_scores(const TaskScoresRecord& record) override { summary_.task_scores = record; }

  Summary summary(const RunEnd& end) const;
  double mean_seconds() const;  // over the averaged steps so far; 0 without any

 private:
  Summary summary_;  // including averaged_seconds; the other averages are computed at the end
  Stopwatch wall_;
  int64_t averaged_tokens_ = 0, averaged_samples_ = 0;
};

// Writes a JSON file atomically. The run does not fail if this fails; the error is only reported.
void write_report(const nlohmann::ordered_json& report, const std::string& path, const Notify& notify);

}  // namespace trireme
