// The pipeline schedule: what one stage does in a step, as a list. A pure function of the layout; executed even when there is one
// stage, replayed by schedule_replay.h, drawn by trireme config --schedule.
//
// A stage holds one or more chunks of the model's layers; chunk c of stage s is number c * stages + s of all chunks, and the
// residual stream goes through them in that order, from the last stage back to the first.
#pragma once

#include <cstdint>
#include <vector>

#include "model/slots.h"

namespace trireme {

enum class ScheduleKind : uint8_t {
  one_forward_one_backward,  // interleaved if there are several chunks
  gpipe,                     // all forwards, then all backwards
  zero_bubble,               // ZB-H1: backward in two halves, wgrad fills the bubbles
  forward_only
};

enum class ActionKind : uint8_t {
  receive_forward,
  forward,
  forward_only,
  send_forward,
  receive_backward,
  backward,
  backward_input,   // backward without wgrad
  backward_weight,  // wgrad
  send_backward
};

const char* name_of(ActionKind kind);  // "backward_input"

constexpr bool is_compute(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::forward_only || kind == ActionKind::backward ||
         kind == ActionKind::backward_input || kind == ActionKind::backward_weight;
}
constexpr bool is_send(ActionKind kind) { return kind == ActionKind::send_forward || kind == ActionKind::send_backward; }
constexpr bool is_receive(ActionKind kind) { return kind == ActionKind::receive_forward || kind == ActionKind::receive_backward; }

struct Action {
  ActionKind kind = ActionKind::forward;
  int64_t micro_batch = 0;
  int64_t chunk = 0;
  Slots slots;
  bool operator==(const Action&) const = default;
};

// Whether p2p sends and receives overlap computation. If so, a receive is posted one computation before the one that reads it. If
// not, all sends and receives between two computations are waited for together.
enum class Messages : uint8_t { waited, overlapped };

// Send buffers per direction, and as many receive buffers.
constexpr int64_t message_buffers(Messages messages) { return messages == Messages::overlapped ? 2 : 1; }

struct Pipeline {
  ScheduleKind kind = ScheduleKind::one_forward_one_backward;
  int64_t stages = 1;
  int64_t chunks = 1;  // of each stage; more than one only with one_forward_one_backward and forward_only
  int64_t micro_batches = 1;
  Messages messages = Messages::waited;
  bool operator==(const Pipeline&) const = default;

  bool is_first(int64_t stage, int64_t chunk) const { return stage == 0 && chunk == 0; }
  bool is_last(int64_t stage, int64_t chunk) const { return stage == stages - 1 && chunk == chunks - 1; }
};

std::vector<Action> make_schedule(const Pipeline& pipeline, int64_t stage);

// The number of slots of each ring that the stage needs: the most that are held at once.
Slots slots_needed(const std::vector<Action>& schedule);

}  // namespace trireme
