// What is known about one training step. Every log is a Sink of these records, so no two logs can disagree.
//
// Steps are numbered from 0, as the log files of the reference systems number them. Where a line is meant for people it counts
// steps done, so that the last one reads 300/300.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// Why a step does not count for the speed of a run. The others are its steady steps: every mean, median and rate that the program
// gives without being asked for other steps is over these.
enum class LeftOut : uint8_t { skipped, profiled, warm_up, after_validation, after_checkpoint, count_ };

struct StepRecord {
  // Filled by the trainer.
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t consumed_samples = 0;  // including this step's
  int64_t global_batch_size = 0;
  int64_t tokens = 0;  // of this step, over all ranks
  double loss = 0;
  double grad_norm = 0;  // before clipping
  double learning_rate = 0;
  double step_seconds = 0;                 // of this step alone
  double data_wait_seconds = 0;            // of step_seconds: waiting for batches that were not ready
  std::optional<double> backward_seconds;  // that the host spent in backward: on a GPU, which runs behind it, enqueueing only

  bool skipped = false;                   // something was not finite, so the parameters did not change
  std::string nonfinite_where;            // "grad of blocks.1.mlp.up.weight is NaN"; empty when not skipped
  std::optional<double> validation_loss;  // of the validation made just before this step
  bool after_checkpoint = false;          // a checkpoint was taken just before this step
  bool profiled = false;
  int64_t memory_bytes = 0;       // in use now, of this rank; 0: not known
  int64_t peak_memory_bytes = 0;  // the most so far

  // Filled by Telemetry::step.
  bool logged = true;            // one in trainer.log_every_n_steps: log files show these only
  bool warm_up = false;          // one of the first steps of this process: caches, pages and plans are still being made
  double mean_step_seconds = 0;  // running mean of step_seconds, over the last 5 unless the recipe says otherwise
  double tokens_per_second = 0;  // tokens / step_seconds
  double tflops_per_device = 0;  // model FLOPs, by the formula of the run's RateBasis
  double mfu = 0;                // tflops_per_device / peak; 0 where the peak is not known
  std::optional<double> loss_outlier_sigma;  // how many standard deviations off, where that is too many
  std::optional<double> grad_outlier_sigma;

  bool after_validation() const { return validation_loss.has_value(); }

  // The first reason; none for a steady step.
  std::optional<LeftOut> left_out() const {
    if (skipped) return LeftOut::skipped;
    if (profiled) return LeftOut::profiled;
    if (warm_up) return LeftOut::warm_up;
    if (after_validation()) return LeftOut::after_validation;
    if (after_checkpoint) return LeftOut::after_checkpoint;
    return std::nullopt;
  }
};

struct ValidationRecord {
  int64_t steps_done = 0;
  double loss = 0;
  int64_t batches = 0;
  double seconds = 0;
};

enum class Severity : uint8_t { info, warning };

// Says one line to whoever watches the run.
using Notify = std::function<void(Severity, std::string_view)>;

enum class RunOutcome : uint8_t { finished, out_of_time, stopped_by_signal, failed };

struct RunEnding {
  RunOutcome outcome = RunOutcome::finished;
  int64_t steps_done = 0;
  std::string reason = {};  // of a failure
};

// A log. A sink never ends a run: it throws when it is made and cannot work, later it only warns.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void step(const StepRecord& record) = 0;
  virtual void validation(const ValidationRecord&) {}
  virtual void message(Severity, std::string_view) {}
  virtual void finish(const RunEnding&) {}
};

}  // namespace trireme
