// metrics.csv: one row per step for spreadsheets and scripts, with LitGPT's throughput/* and time/* columns among our own.
//
// The definitions are those of LitGPT's monitor. throughput/X_per_sec is the increase of X over the last 50 steps divided by the
// increase of time/train; throughput/device/X is the same per device; throughput/device/mfu is a fraction (0.35, not 35). LitGPT
// leaves them empty for the first 50 steps; here they start at the second step. A batch is a global batch.
//
// time/train is the time in training steps since the start of the run, so its difference between rows is a step time. time/val is
// the time in validations, and time/total is the sum. A resumed run continues all three.
//
// A validation has its own row, with the step that it followed, val_loss and the times.
#pragma once

#include <array>
#include <string>

#include "telemetry/flops.h"
#include "telemetry/log_file.h"
#include "telemetry/step_record.h"

namespace trireme {

// Totals since the start of the run; rates are differences of two of these.
struct TrainedTotals {
  double seconds = 0, batches = 0, samples = 0, tokens = 0;
};

class CsvSink final : public Sink {
 public:
  static constexpr size_t kWindow = 50;  // steps

  // Keeps the file's rows before first_step and removes later ones and a torn last line. Renames a file with other columns,
  // written by another version of this program, and starts a new one.
  CsvSink(const std::string& path, int64_t first_step, const RateBasis& rates, Notify notify);

  void step(const StepRecord& record) override;
  void validation(const ValidationRecord& record) override;

  static std::string header();  // the first line, including its line end

 private:
  void go_on(int64_t first_step);  // keeps the rows and the times of an existing file

  RateBasis rates_;
  LogFile file_;
  double validation_seconds_ = 0;
  TrainedTotals totals_;
  std::array<TrainedTotals, kWindow + 1> window_{};  // totals after each of the last steps, as a ring
  size_t steps_seen_ = 0;
  std::string line_;  // member, so that a step allocates nothing
};

}  // namespace trireme
