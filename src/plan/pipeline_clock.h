// Plays the computations of all stages against each other: each begins when its stage is free and its input has arrived.
#pragma once

#include <memory>
#include <vector>

#include "train/schedule.h"

namespace trireme {

// The computations of every stage in order; the p2p sends and receives between them follow from them.
using StageSchedules = std::vector<std::vector<Action>>;
StageSchedules compute_schedules(const Pipeline& pipeline);

// Seconds of a computation by stage and chunk.
struct ActionSeconds {
  std::vector<std::vector<double>> forward, backward;
};

struct PlayedAction {
  Action action;
  double begin = 0, end = 0;
};

struct Played {
  double length = 0;
  std::vector<double> finished;                     // by stage
  std::vector<std::vector<PlayedAction>> timeline;  // by stage, if kept
};

enum class KeepTimeline : uint8_t { no, yes };
Played play(const Pipeline& pipeline, const StageSchedules& schedules, const ActionSeconds& seconds, KeepTimeline keep);

}  // namespace trireme
