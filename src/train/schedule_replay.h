// Simulates the schedules of all stages together: when each computation begins and ends if p2p takes no time, and whether stages
// deadlock. Sends are unbuffered: a transfer happens when both sides are ready, and its buffer is free only afterwards.
#pragma once

#include <functional>
#include <string>

#include "train/schedule.h"

namespace trireme {

struct TimedAction {
  Action action;
  double begin = 0, end = 0;
};

struct Replay {
  std::vector<std::vector<TimedAction>> stages;  // their computations, in order
  double length = 0;                             // from the first begin to the last end
  double work = 0;                               // of the busiest stage
  int64_t messages = 0;
  std::string stuck;  // where a stage deadlocks; empty if all finish

  double bubble() const { return length / work - 1; }  // idle time over work
};

using Duration = std::function<double(int64_t stage, const Action& action)>;

// Forward 1, backward 2, its halves 1 each.
double unit_time(int64_t stage, const Action& action);

Replay replay(const Pipeline& pipeline, const Duration& duration = unit_time);

// The bubble in closed form, with the unit times above: (p-1)/m, divided by the
// chunks; a third of it for ZB-H1 (more with fewer micro-batches than stages). 0 for forward_only, where it is not of interest.
double closed_form_bubble(const Pipeline& pipeline);
// P2p transfers per step, both directions: one per micro-batch and boundary between chunks.
int64_t closed_form_messages(const Pipeline& pipeline);

}  // namespace trireme
