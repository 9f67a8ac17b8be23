// Connects the trainer to every log: completes each step record with derived values and passes it to the sinks.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "telemetry/flops.h"
#include "telemetry/outliers.h"
#include "telemetry/step_record.h"

namespace trireme {

struct TelemetryOptions {
  RateBasis rates = {};
  int64_t timing_buffer = 5;  // steps averaged in mean_step_seconds; 0 or less: the step only
  int64_t planned_steps = 0;  // steps that this process will run
  int64_t log_every_n_steps = 1;
  double outlier_sigma = 6;
};

// Returns the number of warm-up steps, which no average includes: 5, but at most half of the planned steps.
int64_t warm_up_steps(int64_t planned_steps);

class Telemetry {
 public:
  explicit Telemetry(const TelemetryOptions& options);
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // telemetry.add<DlloggerSink>(path, ...) creates the sink, keeps it, and returns a reference to it.
  template <class S, class... Args>
  S& add(Args&&... args) {
    auto sink = std::make_unique<S>(std::forward<Args>(args)...);
    S& reference = *sink;
    sinks_.push_back(std::move(sink));
    return reference;
  }

  void add(std::unique_ptr<Sink> sink) { sinks_.push_back(std::move(sink)); }

  // Fills the second half of `record` and passes it to every sink.
  void step(StepRecord& record);
  void validation(const ValidationRecord& record);
  void task_scores(const TaskScoresRecord& record);
  void message(Severity severity, std::string_view text);
  void finish(const RunEnding& ending);

  // For sinks and others that report messages; valid while this object exists.
  Notify notify() {
    return [this](Severity severity, std::string_view text) { message(severity, text); };
  }

 private:
  double running_mean(double step_seconds);

  TelemetryOptions options_;
  int64_t steps_seen_ = 0;
  std::vector<double> recent_seconds_;  // the last timing_buffer step times, as a ring
  OutlierDetector loss_outliers_, grad_outliers_;
  std::vector<std::unique_ptr<Sink>> sinks_;
};

}  // namespace trireme
