// The pipeline schedule: what one stage does in a step, as a list. A pure function of the layout; executed even when there is one
// stage.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

enum class ScheduleKind : uint8_t { one_forward_one_backward, forward_only };
enum class ActionKind : uint8_t {
  receive_forward,
  forward,
  forward_only,
  send_forward,
  receive_backward,
  backward,
  send_backward
};

struct Action {
  ActionKind kind = ActionKind::forward;
  int64_t micro_batch = 0;
  int64_t slot = 0;  // the memory of the micro-batch between its forward and its backward
  bool operator==(const Action&) const = default;
};

std::vector<Action> make_schedule(ScheduleKind kind, int64_t stages, int64_t micro_batches, int64_t stage);

// The most micro-batches alive at once on a list: how many slots a stage needs.
int64_t slots_needed(const std::vector<Action>& schedule);

}  // namespace trireme
