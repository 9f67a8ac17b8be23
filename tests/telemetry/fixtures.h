// What the telemetry tests share: a clock that stands still, a plausible record.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/clock.h"
#include "support/temporary_folder.h"
#include "telemetry/step_record.h"

namespace trireme {

struct ManualClock final : Clock {
  double now_seconds = 0;
  int64_t now_unix = 1'700'000'000'000'000;
  double seconds() const override { return now_seconds; }
  int64_t unix_microseconds() const override { return now_unix; }
};

inline std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline StepRecord ordinary_record(int64_t step) {
  StepRecord record;
  record.step = step;
  record.global_batch_size = 8;
  record.consumed_samples = 8 * (step + 1);
  record.tokens = 8 * 256;
  record.loss = 2.3412;
  record.grad_norm = 0.84;
  record.learning_rate = 2.93e-3;
  record.step_seconds = 0.0641;
  record.mean_step_seconds = 0.0641;
  record.tokens_per_second = 31950;
  record.tflops_per_device = 0.21;
  record.mfu = 0.413;
  return record;
}

}  // namespace trireme
