// A training run from start to end: data, engine, logs, validation, checkpoints, and how it ends.
#pragma once

#include <memory>

#include "backend/cost/timed_backend.h"
#include "base/process.h"
#include "base/stack_dump.h"
#include "config/settings.h"
#include "data/batch/loader.h"
#include "telemetry/benchmark.h"
#include "telemetry/dllogger.h"
#include "telemetry/telemetry.h"
#include "telemetry/tensorboard.h"
#include "telemetry/text_log.h"
#include "train/agreement.h"
#include "train/checkpoint/checkpoint.h"
#include "train/memory_plan.h"
#include "train/rank_machine.h"
#include "train/run_folder.h"
#include "train/stop_signal.h"

namespace trireme {

enum class TraceOps : uint8_t { no, yes };
enum class TuneProducts : uint8_t { no, yes };
enum class RunPurpose : uint8_t { training, benchmark };  // how the run ends: with a model, or with a report of its speed
enum class Mllog : uint8_t { no, yes };
enum class ChangedSettings : uint8_t { refused, accepted };  // where they change the mathematics of a run that is resumed
enum class ReportFormat : uint8_t { text, json };

struct RunRequest {
  Settings settings;
  std::string settings_text;                      // the resolved recipe as YAML
  std::vector<std::string> notices;               // what the user should know of the recipe, a line each
  LoggedParameters logged_parameters;             // the resolved recipe, flat, for the log files
  std::string hparams_text;                       // the model's settings as YAML
  std::string recipe;                             // as the user named it
  std::string command;                            // how the user started this, for "what to type next"
  std::string arguments;                          // exactly how, for the log
  TraceOps trace_ops = TraceOps::no;              // whether a few steps are traced op by op
  TuneProducts tune_products = TuneProducts::no;  // whether their plans are compared in the steps
  RunPurpose purpose = RunPurpose::training;
  ChangedSettings changed_settings = ChangedSettings::refused;
  Mllog mllog = Mllog::no;                          // whether MLPerf's log lines are written
  ReportFormat report_format = ReportFormat::text;  // of what is printed at the end
};

// One rank of a run. Rank 0 speaks for all: it has the terminal, the run's folder and the logs that describe the run; the others
// have a text log each.
class Trainer {
 public:
  // Opens the data and plans the memory. Allocates nothing of the model yet.
  Trainer(RunRequest request, World& world);

  void announce();  // says what will happen: model, data, layout, memory, rates
  const MemoryPlan& memory_plan() const { return plan_; }
  RunOutcome run(StopSignal& stop);

 private:
  void say(const std::string& text) { tell(Severity::info, text); }
  void warn(const std::string& text) { tell(Severity::warning, text); }
  void tell(Severity severity, std::string_view text);
  bool is_first() const { return world_.rank() == 0; }
  bool counts_targets() const;                           // whether this rank speaks for the samples that it reads
  int64_t micro_batches_of(int64_t global_batch) const;  // of this rank
  SamplerLayout sampler_layout() const;
  std::string data_text() const;
  std::string layout_lines();  // the mesh, and what each rank holds of the model and where
  RunFolder choose_folder();
  void require_run_to_resume() const;
  void require_same_mathematics();
  void claim_folder();
  void start();  // allocates, then initialises or loads
  bool load_checkpoint_if_there();
  void open_text_log();    // before anything else is said
  void restore_weights();  // of model.restore_from_path
  void open_logs();
  void add_run_logs(const Notify& notify);
  void close_logs(const RunEnding& ending);
  RunOutcome train_to_the_end(const StopSignal& stop);
  std::optional<RunOutcome> reason_to_stop(const std::vector<StepVote>& votes);
  std::optional<RunOutcome> start_one_step(StepVote vote);  // or, before the step, a reason of any rank to stop
  void start_step(const StepInput& input);
  void finish_steps(size_t left);  // waits for steps that were started and logs them, until so many are left
  void log_step(StepRecord record, const StepResult& result);
  bool is_traced(int64_t step) const;
  bool is_profiled(int64_t step) const;
  void set_profiling(Profiling wanted);
  void require_resumable();  // the newest checkpoint, if there is one, is of this model and before the end of the run
  void start_tuning();
  void report_trace();
  MemoryUse memory_in_use() const;  // of the device that the model is on
  void validate();
  void save_checkpoint();
  void finish_saving();  // waits until the last checkpoint is on the disk, or says why it is not
  void finish(RunOutcome outcome);
  void gather_ranks(RunEnd& end);
  RunEnd run_end(RunOutcome outcome);
  BenchmarkFacts benchmark_facts() const;
  void report(const Summary& summary);  // on stdout and in the folder
  std::string next_command(RunOutcome outcome) const;
  void open_data();
  bool due(int64_t interval) const { return interval > 0 && step_ % interval == 0; }

  RunRequest request_;
  World& world_;
  Control& control_ = world_.control();
  const Settings& settings_ = request_.settings;
  const ModelSettings& model_ = request_.settings.model;
  const MeshPlace place_;
  RankMachine machine_;
  OpTrace trace_;
  std::unique_ptr<TimedBackend> timed_;  // where somebody wants to see the ops
  Backend* backend_ = nullptr;           // the one of the two that the run uses
  Mesh mesh_;
  Agreement agreement_;
  std::optional<StoredCheckpoint> restored_;  // model.restore_from_path
  std::unique_ptr<Dataset> train_data_, validation_data_;
  DocumentRules documents_;
  int64_t validation_batches_ = 0;  // global batches of one validation
  RateBasis rates_;
  MemoryPlan plan_;
  std::vector<std::pair<std::string, int64_t>> other_memory_;  // what the plan's arenas do not hold
  RunFolder folder_;

  std::optional<StackDump> stack_dump_;
  std::unique_ptr<TextLogSink> text_log_;  // until the other logs are there, and it is one of them
  std::unique_ptr<Telemetry> telemetry_;
  SummarySink* summary_ = nullptr;
  TensorboardSink* tensorboard_ = nullptr;
  bool logs_closed_ = false;
  std::optional<RunMemory> memory_;
  std::unique_ptr<Engine> engine_;
  std::optional<Loader> loader_;
  std::unique_ptr<CheckpointWriter> writer_;

  int64_t step_ = 0;        // steps started
  int64_t first_step_ = 0;  // of this process
  int64_t consumed_samples_ = 0;
  int64_t saved_step_ = -1;                // of the last checkpoint
  std::optional<double> validation_loss_;  // of the last validation
  StepRecord record_;                      // of the next step
  std::vector<StepRecord> started_;        // steps whose results have not been read, the oldest first
  double last_done_ = 0;                   // when the device was done with the step before the oldest of them
  Profiling profiling_ = Profiling::off;
};

}  // namespace trireme
