#include "telemetry/telemetry.h"

#include <algorithm>
#include <numeric>

namespace trireme {

int64_t warm_up_steps(int64_t planned_steps) { return std::min<int64_t>(5, planned_steps / 2); }

Telemetry::Telemetry(const TelemetryOptions& options)
    : options_(options), loss_outliers_(options.outlier_sigma), grad_outliers_(options.outlier_sigma) {
  recent_seconds_.reserve(static_cast<size_t>(std::max<int64_t>(options.timing_buffer, 0)));
}

void Telemetry::step(StepRecord& record) {
  record.logged = (record.step + 1) % options_.log_every_n_steps == 0;
  record.warm_up = steps_seen_ < warm_up_steps(options_.planned_steps);
  record.mean_step_seconds = running_mean(record.step_seconds);
  record.tokens_per_second = record.step_seconds > 0 ? static_cast<double>(record.tokens) / record.step_seconds : 0;
  record.tflops_per_device = options_.rates.tflops_per_device(static_cast<double>(record.global_batch_size), record.step_seconds);
  record.mfu = options_.rates.mfu(record.tflops_per_device);
  record.loss_outlier_sigma = loss_outliers_.judge(record.loss);
  record.grad_outlier_sigma = grad_outliers_.judge(record.grad_norm);
  ++steps_seen_;
  for (const auto& sink : sinks_) sink->step(record);
}

void Telemetry::validation(const ValidationRecord& record) {
  for (const auto& sink : sinks_) sink->validation(record);
}

void Telemetry::task_scores(const TaskScoresRecord& record) {
  for (const auto& sink : sinks_) sink->task_scores(record);
}

void Telemetry::message(Severity severity, std::string_view text) {
  for (const auto& sink : sinks_) sink->message(severity, text);
}

void Telemetry::finish(const RunEnding& ending) {
  for (const auto& sink : sinks_) sink->finish(ending);
}

double Telemetry::running_mean(double step_seconds) {
  if (options_.timing_buffer <= 0) return step_seconds;
  if (static_cast<int64_t>(recent_seconds_.size()) < options_.timing_buffer) {
    recent_seconds_.push_back(step_seconds);
  } else {
    recent_seconds_[static_cast<size_t>(steps_seen_ % options_.timing_buffer)] = step_seconds;
  }
  return std::accumulate(recent_seconds_.begin(), recent_seconds_.end(), 0.0) / static_cast<double>(recent_seconds_.size());
}

}  // namespace trireme
