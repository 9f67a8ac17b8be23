// The facts about one training step. Every log is a Sink of these records, so no two logs can disagree.
//
// Steps are numbered from 0, as in the log files of the reference systems. Lines for people count finished steps instead, so that
// the last one reads 300/300.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Why a step is excluded from the speed of a run. The other steps are the steady steps. By default every mean, median and rate is
// over these.
enum class LeftOut : uint8_t { skipped, profiled, warm_up, after_validation, after_checkpoint, count_ };

struct StepRecord {
  // Filled by the trainer.
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t consumed_samples = 0;  // including this step
  int64_t global_batch_size = 0;
  int64_t tokens = 0;  // in this step, over all ranks
  double loss = 0;
  double grad_norm = 0;  // before clipping
  double learning_rate = 0;
  double step_seconds = 0;                 // of this step only
  double data_wait_seconds = 0;            // part of step_seconds spent waiting for batches
  std::optional<double> backward_seconds;  // host time in backward; on a GPU, which runs asynchronously, the time to enqueue it

  std::optional<double> loss_scale;       // of this step, in fp16
  bool skipped = false;                   // a value was not finite, so the parameters did not change
  std::string nonfinite_where;            // "grad of blocks.1.mlp.up.weight is NaN"; empty if not skipped
  std::optional<double> validation_loss;  // of the validation directly before this step
  bool after_task_scores = false;         // the model was scored on tasks directly before this step
  bool after_checkpoint = false;          // a checkpoint was taken directly before this step
  bool profiled = false;
  int64_t memory_bytes = 0;       // in use now on this rank; 0: unknown
  int64_t peak_memory_bytes = 0;  // peak so far

  // Filled by Telemetry::step.
  bool logged = true;    // whether log files show this step: one in trainer.log_every_n_steps
  bool warm_up = false;  // one of the first steps of this process: caches, pages and GEMM algorithms are still being set up
  double mean_step_seconds = 0;              // running mean of step_seconds, over the last 5 unless the recipe says otherwise
  double tokens_per_second = 0;              // tokens / step_seconds
  double tflops_per_device = 0;              // model FLOPs, by the formula of the run's RateBasis
  double mfu = 0;                            // tflops_per_device / peak; 0 if the peak is unknown
  std::optional<double> loss_outlier_sigma;  // distance in standard deviations, if it is an outlier
  std::optional<double> grad_outlier_sigma;

  bool after_validation() const { return validation_loss.has_value() || after_task_scores; }

  // Returns the first reason to exclude the step, or nothing for a steady step.
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

// One metric of one evaluation task.
struct TaskScore {
  std::string task, metric;
  double value = 0;
  std::string name() const { return task + "/" + metric; }
};

struct TaskScoresRecord {
  int64_t steps_done = 0;
  std::vector<TaskScore> scores;
  double seconds = 0;
};

// Shows one line to the user.
using Notify = std::function<void(Severity, std::string_view)>;

enum class RunOutcome : uint8_t { finished, out_of_time, stopped_by_signal, failed };

struct RunEnding {
  RunOutcome outcome = RunOutcome::finished;
  int64_t steps_done = 0;
  std::string reason = {};  // for a failure
};

// A log. A sink never ends a run: its constructor may throw, but later it only warns.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void step(const StepRecord& record) = 0;
  virtual void validation(const ValidationRecord&) {}
  virtual void task_scores(const TaskScoresRecord&) {}
  virtual void message(Severity, std::string_view) {}
  virtual void finish(const RunEnding&) {}
};

}  // namespace trireme
