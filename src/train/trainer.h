// A training run from start to end. `RunSetup` is what the run is made of, `RunState` what it trains, `RunLogs` what it writes;
// the loop over the steps is here.
#pragma once

#include <optional>
#include <vector>

#include "comm/activity.h"
#include "train/run_logs.h"
#include "train/run_setup.h"
#include "train/run_state.h"
#include "train/run_watch.h"
#include "train/step_tracer.h"
#include "train/stop_signal.h"

namespace trireme {

// One rank of a run.
class Trainer {
 public:
  // Opens the data and plans the memory. Allocates nothing of the model yet.
  Trainer(RunRequest request, World& world);

  void announce();  // says what will happen: model, data, layout, memory, rates
  const MemoryPlan& memory_plan() const { return setup_.plan; }
  RunOutcome run(StopSignal& stop);

 private:
  RunOutcome train_to_the_end(const StopSignal& stop);
  std::optional<RunOutcome> start_one_step(StepVote vote);  // or, before the step, a reason of any rank to stop
  std::optional<RunOutcome> reason_to_stop(const std::vector<StepVote>& votes);
  const Batch& next_batch(Loader& loader, int64_t micro_batch);
  void start_step(const StepInput& input);
  void set_profiling(Profiling wanted);
  void finish_steps(size_t left);  // waits for steps that were started and logs them, until so many are left
  void log_step(StepRecord record, const StepResult& result);
  void validate();
  void rehearse_task_scores();
  void score_tasks();
  void save_checkpoint();
  // Waits until the last checkpoint is on the disk, or until the next one need not wait for it; or says why it is not.
  enum class SaveUntil : uint8_t { stored, next_is_free };
  void finish_saving(SaveUntil until);
  void take_snapshot();
  void finish(RunOutcome outcome);
  double data_wait() const { return state_.loader->waited().seconds; }
  bool scores_tasks(bool validates) const;  // after this step
  bool due(int64_t interval) const { return interval > 0 && state_.step % interval == 0; }

  RunSetup setup_;
  const Settings& settings_ = setup_.settings;
  const ModelSettings& model_ = setup_.model;
  RunLogs logs_;
  StepTracer tracer_;
  RunState state_;
  std::optional<RunWatch> watch_;
  std::unique_ptr<TaskScorer> task_scorer_;  // none without model.validation_tasks
  StepRecord record_;                        // of the next step
  std::vector<StepRecord> started_;          // steps whose results have not been read, the oldest first
  RunPhase validation_phase_ = RunPhase::first_validation;
  double last_done_ = 0;                             // when the device was done with the step before the oldest of them
  double last_compute_ = 0, last_step_seconds_ = 0;  // of the last step; 0: not known
};

}  // namespace trireme
