// A communicator that forwards its calls and notes when each begins and ends while a trace is on.
#pragma once

#include "backend/op_trace.h"
#include "comm/forwarding_communicator.h"

namespace trireme {

class TimedCommunicator final : public ForwardingCommunicator {
 public:
  TimedCommunicator(GroupKind group, std::unique_ptr<Communicator> inner, Instruments& instruments, OpTrace& trace)
      : ForwardingCommunicator(std::move(inner)), group_(group), instruments_(instruments), trace_(trace) {}

 private:
  void before(const Call& call) override {
    if (trace_.tracing() != Tracing::times) return;
    under_way_ = &trace_.add({.kind = TracedCall::Kind::collective,
                              .name = call.name,
                              .group = name_of(group_),
                              .stream = call.stream,
                              .bytes = static_cast<double>(call.bytes())});
    instruments_.note_time(call.stream, &under_way_->begin);
  }
  void after(const Call& call) override {
    if (under_way_ != nullptr) instruments_.note_time(call.stream, &std::exchange(under_way_, nullptr)->end);
  }

  GroupKind group_;
  Instruments& instruments_;
  OpTrace& trace_;
  TracedCall* under_way_ = nullptr;  // between before() and after() of a traced call
};

// Returns the same mesh with all groups of more than one rank timed.
inline Mesh timed(Mesh mesh, Instruments& instruments, OpTrace& trace) {
  return with_wrapped_groups(std::move(mesh), [&](GroupKind kind, std::unique_ptr<Communicator> group) {
    if (group->size() == 1) return group;
    return std::unique_ptr<Communicator>(std::make_unique<TimedCommunicator>(kind, std::move(group), instruments, trace));
  });
}

}  // namespace trireme
