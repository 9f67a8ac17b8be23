// When each tensor of a step is in use, found by recording the step on the cost backend.
//
// A step is a list of actions: forward, backward and so on of one micro-batch on one chunk. While an action runs, the model takes
// tensors; here they get addresses that stand for nothing but their identity. The n-th tensor of an action of one kind on one
// chunk is the same tensor in every micro-batch: that is its key. Most are used in their action only. Others cross to a later
// action of the same micro-batch, as activations do from forward to backward.
//
// Within an action, time is counted in calls of the compute stream: call c is at 2c, and 2c + 1 is the time between calls c and
// c + 1. A call on another stream runs at an unknown time between the last call of the compute stream that its stream has waited
// for and the first that waits for it. So all lifetimes are intervals of one time line, and events are what bounds them.
#pragma once

#include <array>
#include <compare>
#include <deque>
#include <limits>
#include <vector>

#include "backend/step_log.h"
#include "tensor/tensor_source.h"
#include "train/schedule.h"

namespace trireme {

// The memory of a step's actions, from which the model takes tensors while one runs.
class StepMemory : public TensorSource {
 public:
  virtual void begin(const Action& action) = 0;
};

struct TensorKey {
  ActionKind taken_in = ActionKind::forward;
  size_t number = 0;                                   // among the tensors that the action takes
  auto operator<=>(const TensorKey&) const = default;  // NOLINT(modernize-use-nullptr): false positive in generated code
};

struct Lifetime {
  TensorKey key;
  int64_t begin = 0, end = 0;  // first and last use within the action
  bool operator==(const Lifetime&) const = default;
};

// `out` is written by the op that reads `in` and may be written to its memory, if `in` is not used later.
struct InPlace {
  TensorKey out, in;
  bool operator==(const InPlace&) const = default;
};

// Working memory of a call on the compute stream.
struct ScratchUse {
  int64_t at = 0, bytes = 0;
  bool operator==(const ScratchUse&) const = default;
};

// One execution of an action.
struct ActionTrace {
  std::vector<Lifetime> lifetimes;  // by key
  std::vector<InPlace> in_place;
  std::vector<ScratchUse> scratch;  // in order of time
  bool operator==(const ActionTrace&) const = default;
};

struct TakenTensor {
  const char* name = "";
  Shape shape;
  DType dtype = DType::f32;
  int64_t bytes() const { return shape.count() * size_of(dtype); }
  bool operator==(const TakenTensor&) const = default;
};

// An action on a chunk: the tensors it takes, which are the same in every micro-batch, and the different ways in which its
// executions used them. They differ where micro-batches wait for different events.
struct RecordedAction {
  ActionKind kind = ActionKind::forward;
  int64_t chunk = 0;
  std::vector<TakenTensor> taken;
  std::vector<ActionTrace> traces;
};

class LifetimeRecorder final : public StepMemory, public StepWatcher {
 public:
  void begin(const Action& action) override;
  Tensor take(const char* name, const Shape& shape, DType dtype) override;

  void begin_call(Stream stream, int64_t scratch_bytes) override;
  void access(const Tensor& tensor, Access access) override;
  void in_place(const Tensor& out, const Tensor& in) override;
  uint64_t record(Stream stream, const char* name) override;
  void wait(Stream stream, uint64_t ticket) override;

  // What was recorded. No action may be running.
  void finish();
  const std::vector<RecordedAction>& actions() const { return actions_; }
  const std::vector<Action>& executed() const { return executed_; }  // in order

 private:
  using Clock = std::array<int64_t, kStreams>;  // calls of each stream that are known to be done
  struct Recorded {
    TensorKey key;
    int64_t execution = -1;  // the last that used it
    size_t lifetime = 0;     // in that execution
  };
  struct PendingUse {
    int64_t call = 0;     // of its stream
    size_t lifetime = 0;  // in this execution
  };
  static constexpr size_t kCompute0 = kCompute.number();

  void end_action();
  RecordedAction& recorded(ActionKind kind, int64_t chunk);
  Recorded* find(const Tensor& tensor);
  Lifetime& lifetime_of(Recorded& tensor);
  int64_t now() const { return 2 * (calls_[kCompute0] - begin_); }  // of the last call of the compute stream

  std::vector<RecordedAction> actions_;
  std::vector<Action> executed_;
  std::vector<Recorded> tensors_;  // by identity
  bool running_ = false;
  Action action_;
  int64_t execution_ = -1;
  int64_t begin_ = 0;  // calls of the compute stream before the action
  std::vector<TakenTensor> taken_;
  ActionTrace trace_;

  Stream stream_;  // of the call whose operands are being named
  Clock calls_{};  // made on each stream
  std::array<Clock, kStreams> known_{};
  std::deque<Clock> events_;  // by ticket - 1
  std::array<std::vector<PendingUse>, kStreams> pending_;
};

}  // namespace trireme
