// Where each tensor of a step is in memory, from the lifetimes of the recorded step.
//
// The step has one block of memory:
//
//   kept: rings of slots that hold what crosses from action to action     worked in
//   | saved[0] saved[1] .. | inputs[0] .. | gradients[0] .. |             scratch of ops ...
//
// A tensor that crosses keeps its place in its slot. Every other tensor is packed, action by action, around the tensors that are
// in use at the same time: into the rest of the block, or into parts of its own micro-batch's slots before they are written and
// after they were last read. Other slots are never touched, so the plan holds for any number of micro-batches in any order that
// the schedule's slots allow. An evaluation keeps nothing and has the whole block.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "backend/cost/cost_backend.h"
#include "train/lifetimes.h"

namespace trireme {

// The rings of slots.h; `none` is the part of the block that is not in slots.
enum class SlotRing : uint8_t { saved, inputs, gradients, none };
inline constexpr size_t kRings = static_cast<size_t>(SlotRing::none);

constexpr int64_t slot_in(const Slots& slots, SlotRing ring) {
  return ring == SlotRing::saved ? slots.saved : ring == SlotRing::inputs ? slots.inputs : slots.gradients;
}

struct TensorPlace {
  static constexpr int64_t kNowhere = -1;  // no op uses the tensor
  SlotRing ring = SlotRing::none;
  int64_t offset = kNowhere;  // in a slot of the ring, or in the block
};

struct PlannedTensor {
  TakenTensor tensor;
  TensorPlace place;
  std::optional<ActionKind> crosses_to = {};  // the action that uses it last, if that is not the one that takes it
};

struct PlannedAction {
  ActionKind kind = ActionKind::forward;
  int64_t chunk = 0;
  std::vector<PlannedTensor> tensors;  // in the order in which they are taken
};

struct RingPlan {
  int64_t offset = 0;  // of its first slot in the block
  int64_t slots = 0;
  int64_t bytes = 0;  // of each slot
};

struct StepPlan {
  std::vector<PlannedAction> actions;
  std::array<RingPlan, kRings> rings;  // each slot has room for what any chunk keeps in it
  int64_t kept = 0;                    // bytes of all slots; the scratch memory of ops follows
  int64_t wgrad_scratch = 0;           // where that of wgrad on a stream of its own begins
  int64_t bytes = 0;                   // of the block

  const PlannedAction& action(ActionKind kind, int64_t chunk) const;
  int64_t address(const TensorPlace& place, const Slots& slots) const;  // in the block
};

// `slots`: how many each ring has.
StepPlan place_tensors(const std::vector<RecordedAction>& actions, const Slots& slots, const ScratchPeaks& scratch);

// Hands out the planned places of one block of memory.
class PlannedMemory final : public StepMemory {
 public:
  PlannedMemory(const StepPlan& plan, Tensor block) : plan_(plan), block_(block) {}
  void begin(const Action& action) override;
  Tensor take(const char* name, const Shape& shape, DType dtype) override;
  const Tensor& block() const { return block_; }

 private:
  const StepPlan& plan_;
  Tensor block_;  // [bytes] u8
  const PlannedAction* action_ = nullptr;
  Slots slots_;
  size_t next_ = 0;
};

}  // namespace trireme
