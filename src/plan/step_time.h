// How long a training step takes: the recorded calls of each stage, each with its time, played along the pipeline schedule.
#pragma once

#include <vector>

#include "plan/call_time.h"
#include "plan/hardware.h"
#include "plan/pipeline_clock.h"
#include "plan/recording.h"
#include "plan/software.h"

namespace trireme {

// Layers of each chunk of each stage.
using StageLayers = std::vector<std::vector<int64_t>>;

// As the trainer divides them.
StageLayers layers_of(const ModelSettings& model);

// Those of other programs: evenly; else with the embedding and the head counted as a layer each; else with the remainder spread
// over the first stages.
StageLayers spread_layers(int64_t layers, int64_t stages, int64_t chunks);

// A step that can be timed on any platform with any software.
class PlanCase {
 public:
  // The settings must be valid but for the division of layers.
  PlanCase(const Settings& from, StageLayers stage_layers, RecordedDevice device = RecordedDevice::gpu)
      : PlanCase(from, std::move(stage_layers), record_step(from, device)) {}
  PlanCase(const Settings& from, StageLayers stage_layers, StepRecording recorded);

  Settings settings;
  StageLayers layers;
  StepRecording recording;
  Pipeline pipeline;
  // Once the pipeline is full, every `stages` micro-batches take the same time. So a long step follows from two shorter ones.
  struct Played {
    Pipeline pipeline;
    StageSchedules schedules;
  };
  std::vector<Played> lengths;  // one if the step is short
};

// Where the time of a step goes, on the stage that works longest. The parts sum to `total`.
struct StepTime {
  double compute = 0;     // GEMMs, attention and memory-bound ops
  double tp = 0, cp = 0;  // communication that nothing hides
  double pp = 0, dp = 0;
  double bubble = 0;
  double optimizer = 0;
  double other = 0;  // outside of the model
  double total = 0;
};

// Of a computation: the ops, and communication that they do not hide.
struct ActionTime {
  double compute = 0, tp = 0, cp = 0, pp = 0;
  double calls = 0;  // that the host enqueues
  double total() const { return compute + tp + cp + pp; }
  void add(const ActionTime& other, double times);
};

// Once a step.
struct UpdateTime {
  double grad_sync = 0, param_sync = 0, optimizer = 0;
  void add(const UpdateTime& other, double times);
};

struct StageTime {
  std::vector<ActionTime> forward, backward;  // by chunk
  UpdateTime update;
};

class StepTimer {
 public:
  StepTimer(const PlanCase& plan_case, const Platform& platform, const SoftwareProfile& software);

  StepTime time() const;
  Played timeline() const;  // of every micro-batch

 private:
  struct PartTime {
    ActionTime forward, backward;
    UpdateTime update;
    void add(const PartTime& other, double times);
  };

  PartTime part_time(const PartCalls& calls) const;
  ActionTime action_time(const PlanCalls& calls) const;
  UpdateTime update_time(const PlanCalls& calls) const;
  double message_seconds() const;
  void add_stages();
  void wait_for_host(ActionTime& time) const;
  double pipeline_seconds() const;
  double exposed_sync() const;

  const PlanCase& case_;
  const Platform& platform_;
  const SoftwareProfile& software_;
  const CallTimes times_;
  std::vector<StageTime> stages_;
  ActionSeconds seconds_;
};

StepTime step_time(const PlanCase& plan_case, const Platform& platform, const SoftwareProfile& software);

}  // namespace trireme
