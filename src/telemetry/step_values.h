// The values of a step under NeMo's log names, in the order of its DLLogger file; our own follow. DLLogger and TensorBoard both
// use this list, so a name is in both or in neither.
#pragma once

#include "telemetry/step_record.h"

namespace trireme {

// exp_manager.log_step_timing
enum class StepTiming : uint8_t { left_out, logged };

// How a number is written: reals are rounded to f32, as in the reference systems.
enum class NumberKind : uint8_t { real, counter, integer };

// Calls add(name, value, kind) for each known value.
template <class Add>
void visit_step_values(const StepRecord& record, StepTiming timing, const Add& add) {
  const auto real = [&](const char* name, double value) { add(name, value, NumberKind::real); };
  const auto count = [&](const char* name, int64_t value, NumberKind kind) { add(name, static_cast<double>(value), kind); };
  if (record.loss_scale) real("loss_scale", *record.loss_scale);
  real("reduced_train_loss", record.loss);
  real("lr", record.learning_rate);
  count("global_step", record.step, NumberKind::counter);
  count("consumed_samples", record.consumed_samples, NumberKind::counter);
  if (timing == StepTiming::logged && record.backward_seconds) real("train_backward_timing in s", *record.backward_seconds);
  real("grad_norm", record.grad_norm);
  if (timing == StepTiming::logged) {
    real("train_step_timing in s", record.mean_step_seconds);
    real("train_step_timing_raw in s", record.step_seconds);
  }
  count("epoch", record.epoch, NumberKind::integer);
  if (timing == StepTiming::logged) count("steady_step", record.left_out() ? 0 : 1, NumberKind::integer);
  const auto known = [&](const char* name, double value) {
    if (value > 0) real(name, value);
  };
  known("global_batch_size", static_cast<double>(record.global_batch_size));
  known("tokens_per_second", record.tokens_per_second);
  known("tflops_per_device", record.tflops_per_device);
  known("mfu", record.mfu);
  known("memory_allocated", static_cast<double>(record.memory_bytes));
  known("peak_memory_usage", static_cast<double>(record.peak_memory_bytes));
}

}  // namespace trireme
