#include "train/lifetimes.h"

#include <algorithm>

namespace trireme {
namespace {

// The address of a tensor says which one it is: its number, and below that the offset within it. Numbers start at 1, because
// tensors without an address are not the step's.
constexpr int kOffsetBits = 40;

void* address_of(size_t number) {
  return reinterpret_cast<void*>((number + 1) << kOffsetBits);  // NOLINT(performance-no-int-to-ptr): never dereferenced
}
size_t number_at(const void* address) { return (reinterpret_cast<uintptr_t>(address) >> kOffsetBits) - 1; }
bool is_whole(const Tensor& tensor) {
  return (reinterpret_cast<uintptr_t>(tensor.data) & ((uintptr_t{1} << kOffsetBits) - 1)) == 0;
}

}  // namespace

RecordedAction& LifetimeRecorder::recorded(ActionKind kind, int64_t chunk) {
  for (RecordedAction& action : actions_)
    if (action.kind == kind && action.chunk == chunk) return action;
  return actions_.emplace_back(RecordedAction{.kind = kind, .chunk = chunk, .taken = {}, .traces = {}});
}

void LifetimeRecorder::begin(const Action& action) {
  finish();
  running_ = true;
  action_ = action;
  executed_.push_back(action);
  execution_ += 1;
  begin_ = calls_[kCompute0];
}

void LifetimeRecorder::finish() {
  if (running_) end_action();
  running_ = false;
}

void LifetimeRecorder::end_action() {
  for (const std::vector<PendingUse>& uses : pending_)
    CHECK(uses.empty());  // the compute stream must have waited for everything that uses the action's memory
  std::ranges::sort(trace_.lifetimes, {}, &Lifetime::key);
  RecordedAction& action = recorded(action_.kind, action_.chunk);
  if (action.traces.empty()) action.taken = taken_;
  CHECK(action.taken == taken_);
  if (std::ranges::find(action.traces, trace_) == action.traces.end()) action.traces.push_back(std::move(trace_));
  trace_ = {};
  taken_.clear();
}

Tensor LifetimeRecorder::take(const char* name, const Shape& shape, DType dtype) {
  CHECK(running_);
  tensors_.push_back({.key = {action_.kind, taken_.size()}});
  taken_.push_back({name, shape, dtype});
  CHECK(taken_.back().bytes() < int64_t{1} << kOffsetBits);
  return {.data = address_of(tensors_.size() - 1), .dtype = dtype, .shape = shape, .device = Device::none};
}

LifetimeRecorder::Recorded* LifetimeRecorder::find(const Tensor& tensor) {
  return tensor && tensor.data != nullptr ? &tensors_[number_at(tensor.data)] : nullptr;
}

Lifetime& LifetimeRecorder::lifetime_of(Recorded& tensor) {
  if (tensor.execution != execution_) {
    tensor.execution = execution_;
    tensor.lifetime = trace_.lifetimes.size();
    trace_.lifetimes.push_back({.key = tensor.key, .begin = std::numeric_limits<int64_t>::max(), .end = 0});
  }
  return trace_.lifetimes[tensor.lifetime];
}

void LifetimeRecorder::begin_call(Stream stream, int64_t scratch_bytes) {
  stream_ = stream;
  calls_[stream.number()] += 1;
  if (running_ && stream == kCompute && scratch_bytes > 0) trace_.scratch.push_back({now(), scratch_bytes});
}

void LifetimeRecorder::access(const Tensor& tensor, Access) {
  Recorded* const found = find(tensor);
  if (found == nullptr) return;
  CHECK(running_);
  Lifetime& lifetime = lifetime_of(*found);
  if (stream_ == kCompute) {
    lifetime.begin = std::min(lifetime.begin, now());
    lifetime.end = std::max(lifetime.end, now());
    return;
  }
  const size_t stream = stream_.number();
  const int64_t waited_for = known_[stream][kCompute0] - begin_;
  CHECK(waited_for >= 0);  // the stream must have waited for this action to begin
  lifetime.begin = std::min(lifetime.begin, 2 * waited_for + 1);
  pending_[stream].push_back({.call = calls_[stream], .lifetime = found->lifetime});
}

void LifetimeRecorder::in_place(const Tensor& out, const Tensor& in) {
  const Recorded *const to = find(out), *const from = find(in);
  if (to == nullptr || from == nullptr || to == from || !is_whole(out) || !is_whole(in)) return;
  trace_.in_place.push_back({to->key, from->key});
}

uint64_t LifetimeRecorder::record(Stream stream, const char*) {
  Clock& clock = events_.emplace_back(known_[stream.number()]);
  clock[stream.number()] = calls_[stream.number()];
  return events_.size();
}

void LifetimeRecorder::wait(Stream stream, uint64_t ticket) {
  if (ticket == 0) return;  // an event that was never recorded
  Clock& known = known_[stream.number()];
  const Clock& reached = events_[ticket - 1];
  for (size_t i = 0; i < kStreams; ++i) known[i] = std::max(known[i], reached[i]);
  if (stream != kCompute) return;
  for (size_t i = 0; i < kStreams; ++i)
    std::erase_if(pending_[i], [&](const PendingUse& use) {
      if (use.call > known[i]) return false;
      Lifetime& lifetime = trace_.lifetimes[use.lifetime];
      lifetime.end = std::max(lifetime.end, now() + 1);
      return true;
    });
}

}  // namespace trireme
