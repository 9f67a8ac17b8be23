// The end of a run: what it did, how fast it really was, and where everything is; as a few lines and as summary.json.
//
// Speed is averaged over the steady steps. A step is left out, and counted by its first reason, when it was skipped (not finite),
// profiled, one of the warm-up steps (warm_up_steps in telemetry.h), or came right after a validation or a checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "telemetry/flops.h"
#include "telemetry/step_record.h"

namespace trireme {

inline constexpr size_t kLeftOutReasons = static_cast<size_t>(LeftOut::count_);
const char* name_of(LeftOut reason);  // "skipped", "profiled", "warm-up", "after a validation", "after a checkpoint"

struct Place {
  std::string label, path;
};

struct RankEnd {
  int64_t rank = 0;
  double mean_seconds = 0;   // of the steps that are averaged, as this rank measured them
  int64_t memory_bytes = 0;  // the most in use; 0: not known
};

// What only the trainer knows at the end.
struct RunEnd {
  int64_t memory_announced = 0;  // bytes a device, said before the run; 0: not known
  std::vector<RankEnd> ranks;    // all of them
  std::vector<Place> places;     // checkpoint, logs, ...
  std::string next_command;      // what to type now
};

struct Summary {
  int64_t steps = 0;       // made by this process
  int64_t steps_done = 0;  // since the run began, those before a resume included
  int64_t consumed_samples = 0;
  int64_t tokens = 0;
  double wall_seconds = 0;
  std::optional<double> final_loss;            // of the last step that was not skipped
  std::optional<ValidationRecord> validation;  // the last one

  int64_t averaged = 0;                           // steady steps: the rest of this group, and the rates, are over these
  int64_t first_averaged = 0, last_averaged = 0;  // counted from 0, as logs do
  std::array<int64_t, kLeftOutReasons> left_out{};
  double mean_seconds = 0, median_seconds = 0, percentile95_seconds = 0, least_seconds = 0, most_seconds = 0;
  int64_t data_wait_steps = 0;   // that waited for data
  double data_wait_seconds = 0;  // how long, all of them together
  double tokens_per_second = 0;
  double tflops_per_device = 0;  // by the formula of `rates`
  double mfu = 0;
  double causal_tflops_per_device = 0;
  std::vector<double> averaged_seconds;  // each of them, in the order of the steps

  RateBasis rates;
  RunEnd end;

  const RankEnd* slowest_rank() const;  // none when no rank is known
  int64_t most_memory() const;          // bytes, of the rank that used most; 0: not known

  std::string text() const;  // about six lines
  nlohmann::ordered_json json() const;
};

class SummarySink final : public Sink {
 public:
  SummarySink(const RateBasis& rates, int64_t planned_steps, const Clock& clock = system_clock());

  void step(const StepRecord& record) override;
  void validation(const ValidationRecord& record) override { summary_.validation = record; }

  Summary summary(const RunEnd& end) const;
  double mean_seconds() const;  // of the averaged steps so far; 0: there are none

 private:
  Summary summary_;  // averaged_seconds too; the rest of the averages is made at the end
  Stopwatch wall_;
  int64_t averaged_tokens_ = 0, averaged_samples_ = 0;
};

// Writes a JSON file whole or not at all; a run that got this far does not fail for it, so trouble is only said.
void write_report(const nlohmann::ordered_json& report, const std::string& path, const Notify& notify);

}  // namespace trireme
