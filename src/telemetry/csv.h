// metrics.csv: a row a step for spreadsheets and scripts, with LitGPT's throughput/* and time/* columns among our own.
//
// As LitGPT's monitor counts: throughput/X_per_sec is the growth of X over the last 50 steps divided by the growth of time/train;
// throughput/device/X is that for one device; throughput/device/mfu is a share (0.35, not 35). LitGPT leaves them empty until 50
// steps are there; here they begin with the second step. A batch is a global batch. time/train is the time in training steps
// since the run began (so its growth from row to row is a step time), time/val that in validations, time/total the sum; a resumed
// run counts on.
//
// A validation has a row of its own, with the step that it followed, val_loss, and the times.
#pragma once

#include <array>
#include <string>

#include "telemetry/flops.h"
#include "telemetry/log_file.h"
#include "telemetry/step_record.h"

namespace trireme {

// What has been trained since the run began; rates are differences of two of these.
struct TrainedTotals {
  double seconds = 0, batches = 0, samples = 0, tokens = 0;
};

class CsvSink final : public Sink {
 public:
  static constexpr size_t kWindow = 50;  // steps

  // Rows of steps before first_step that the file already has are kept, later ones and a torn last line go. A file with other
  // columns, of another version of this program, is renamed and a new one begun.
  CsvSink(const std::string& path, int64_t first_step, const RateBasis& rates, Notify notify);

  void step(const StepRecord& record) override;
  void validation(const ValidationRecord& record) override;

  static std::string header();  // the first line, with its end

 private:
  void go_on(int64_t first_step);  // with the rows and the times of a file that is there

  RateBasis rates_;
  LogFile file_;
  double validation_seconds_ = 0;
  TrainedTotals totals_;
  std::array<TrainedTotals, kWindow + 1> window_{};  // after each of the last steps, as a ring
  size_t steps_seen_ = 0;
  std::string line_;  // kept, so that a step allocates nothing
};

}  // namespace trireme
