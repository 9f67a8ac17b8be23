// Plays the schedules of all stages against each other: when each computation would begin and end if messages took no time, and
// whether the stages ever wait for each other in a ring. Sends are unbuffered: a message passes when both sides are ready for it,
// and the memory it is in can be used again only then.
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
  std::string stuck;  // where a stage waits for ever; empty if all come to their ends

  double bubble() const { return length / work - 1; }  // time without work, as a share of the work
};

using Duration = std::function<double(int64_t stage, const Action& action)>;

// Forward 1, backward 2, its halves 1 each.
double unit_time(int64_t stage, const Action& action);

Replay replay(const Pipeline& pipeline, const Duration& duration = unit_time);

// What the bubble comes to where all computations of a kind take the same time, the unit times above: (p-1)/m, divided by the
// chunks; a third of it for ZB-H1 (more with fewer micro-batches than stages). 0 for forward_only, where it is not of interest.
double closed_form_bubble(const Pipeline& pipeline);
// Messages of a step, both directions: one a micro-batch and boundary between chunks.
int64_t closed_form_messages(const Pipeline& pipeline);

}  // namespace trireme
