// Formats a step or a validation as one line, for the terminal and for text logs.
#pragma once

#include <string>

#include "telemetry/step_record.h"

namespace trireme {

enum class Colour : uint8_t { no, yes };

inline constexpr int kAnyColumns = 1000;  // for a log file, whose lines may be of any length

// step  120/300  loss  2.3412  grad   0.840  lr 2.93e-03   64.1 ms   31.9k tok/s    0.21 TFLOP/s  MFU 41.3%  eta 0:12
//
// Where `columns` is less than that, TFLOP/s, lr, eta and MFU are left out, in this order, until the line fits.
void append_step_text(std::string& out, const StepRecord& record, int64_t total_steps, int columns, Colour colour);

// valid 120/300  loss  2.4012  perplexity 11.04  50 batches in 1.23 s
void append_validation_text(std::string& out, const ValidationRecord& record, int64_t total_steps);
void append_task_scores_text(std::string& out, const TaskScoresRecord& record, int64_t total_steps);

// Returns whether the user should see this step: it was skipped, or a value is an outlier.
inline bool is_remarkable(const StepRecord& record) {
  return record.skipped || record.loss_outlier_sigma || record.grad_outlier_sigma;
}

}  // namespace trireme
