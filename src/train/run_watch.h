// What a run watches while it trains: where its time goes, which ranks are slow, whether replicas are equal, and what is written
// down if the job fails.
#pragma once

#include <memory>

#include "telemetry/stragglers.h"
#include "telemetry/summary.h"
#include "train/attempt_recorder.h"
#include "train/engine.h"
#include "train/run_logs.h"
#include "train/run_setup.h"

namespace trireme {

class RunWatch {
 public:
  // All ranks together, once the folder is claimed. From here on a failure of the job leaves a post-mortem.
  RunWatch(RunSetup& setup, RunLogs& logs);

  AttemptRecorder& recorder() { return *recorder_; }
  void begin_training(int64_t first_step);
  void note_step(int64_t steps_done);
  void note_failure(const std::exception& error);  // of a job of one rank, which has no control plane

  // Between these two calls a rank computes, except where it waits. The second returns the seconds without the waits; 0: the host
  // does not know how long its device computes.
  void begin_compute(double data_wait);
  double end_compute(double data_wait) const;
  // `votes`: with the compute times of a step that took so long, by rank.
  void find_stragglers(const std::vector<StepVote>& votes, int64_t step, double step_seconds);

  bool checks_replicas_after(int64_t steps_done) const;
  // All ranks together. Throws a Failure that names the ranks whose weights differ from those of their replicas.
  void check_replicas(const Engine& engine, int64_t steps_done);

  void note_save(double exposed_seconds);
  void add_to(RunEnd& end);

 private:
  RunSetup& setup_;
  RunLogs& logs_;
  std::shared_ptr<AttemptRecorder> recorder_;
  std::function<void(const JobEnd&)> report_;
  StragglerWatch stragglers_;
  std::vector<StragglerNote> straggler_notes_;
  SaveTimes saves_;
  int64_t first_step_ = 0;
  bool has_stepped_ = false;
  double compute_begun_ = 0, waited_before_ = 0;
};

}  // namespace trireme
