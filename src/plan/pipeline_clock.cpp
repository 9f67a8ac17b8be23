#include "plan/pipeline_clock.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

constexpr double kNotYet = -1;

class ClockPlayer {
 public:
  ClockPlayer(const Pipeline& pipeline, const StageSchedules& schedules, const ActionSeconds& seconds, KeepTimeline keep)
      : pipeline_(pipeline), schedules_(schedules), seconds_(seconds), keeps_(keep == KeepTimeline::yes) {
    const auto computations = static_cast<size_t>(pipeline.stages * pipeline.chunks * pipeline.micro_batches);
    forward_end_.assign(computations, kNotYet), backward_end_.assign(computations, kNotYet);
    next_.assign(schedules.size(), 0);
    played_.finished.assign(schedules.size(), 0);
    if (keeps_) played_.timeline.resize(schedules.size());
  }

  Played play() && {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (size_t stage = 0; stage < schedules_.size(); ++stage)
        while (next_[stage] < schedules_[stage].size() && step(stage)) has_moved = true;
    }
    for (size_t stage = 0; stage < schedules_.size(); ++stage) CHECK_EQ(next_[stage], schedules_[stage].size());
    played_.length = *std::ranges::max_element(played_.finished);
    return std::move(played_);
  }

 private:
  size_t index(int64_t stage, int64_t chunk, int64_t micro_batch) const {
    return static_cast<size_t>((stage * pipeline_.chunks + chunk) * pipeline_.micro_batches + micro_batch);
  }

  // When the input of a computation has arrived.
  double input_time(int64_t stage, const Action& action) const {
    const int64_t last = pipeline_.stages - 1;
    if (action.kind == ActionKind::backward_weight) return 0;
    if (action.kind == ActionKind::forward) {
      if (pipeline_.is_first(stage, action.chunk)) return 0;
      return stage > 0 ? forward_end_[index(stage - 1, action.chunk, action.micro_batch)]
                       : forward_end_[index(last, action.chunk - 1, action.micro_batch)];
    }
    if (pipeline_.is_last(stage, action.chunk)) return forward_end_[index(stage, action.chunk, action.micro_batch)];
    return stage < last ? backward_end_[index(stage + 1, action.chunk, action.micro_batch)]
                        : backward_end_[index(0, action.chunk + 1, action.micro_batch)];
  }

  double seconds_of(size_t stage, const Action& action) const {
    const auto chunk = static_cast<size_t>(action.chunk);
    if (action.kind == ActionKind::forward) return seconds_.forward[stage][chunk];
    const double backward = seconds_.backward[stage][chunk];
    return action.kind == ActionKind::backward ? backward : backward / 2;
  }

  bool step(size_t stage) {
    const Action& action = schedules_[stage][next_[stage]];
    const auto number = static_cast<int64_t>(stage);
    const double input = input_time(number, action);
    if (input == kNotYet) return false;
    const double begin = std::max(played_.finished[stage], input), end = begin + seconds_of(stage, action);
    if (action.kind != ActionKind::backward_weight)
      (action.kind == ActionKind::forward ? forward_end_ : backward_end_)[index(number, action.chunk, action.micro_batch)] = end;
    played_.finished[stage] = end;
    if (keeps_) played_.timeline[stage].push_back({action, begin, end});
    next_[stage] += 1;
    return true;
  }

  const Pipeline& pipeline_;
  const StageSchedules& schedules_;
  const ActionSeconds& seconds_;
  bool keeps_;
  std::vector<double> forward_end_, backward_end_;
  std::vector<size_t> next_;  // of each stage's schedule
  Played played_;
};

}  // namespace

StageSchedules compute_schedules(const Pipeline& pipeline) {
  StageSchedules schedules;
  for (int64_t stage = 0; stage < pipeline.stages; ++stage) {
    std::vector<Action> actions = make_schedule(pipeline, stage);
    std::erase_if(actions, [](const Action& action) { return !is_compute(action.kind); });
    schedules.push_back(std::move(actions));
  }
  return schedules;
}

Played play(const Pipeline& pipeline, const StageSchedules& schedules, const ActionSeconds& seconds, KeepTimeline keep) {
  return ClockPlayer(pipeline, schedules, seconds, keep).play();
}

}  // namespace trireme
