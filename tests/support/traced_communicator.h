// Another communicator, with every call written to a log before it is made.
#pragma once

#include <string_view>

#include "comm/cost.h"
#include "comm/forwarding_communicator.h"

namespace trireme {

class TracedCommunicator final : public ForwardingCommunicator {
 public:
  TracedCommunicator(GroupKind group, std::unique_ptr<Communicator> inner, StepLog& log)
      : ForwardingCommunicator(std::move(inner)), calls_(group, size(), &log) {}

 private:
  void before(const Call& call) override {
    if (call.name == std::string_view("exchange"))
      calls_.add(call.stream, call.messages);
    else
      calls_.add(call.name, call.stream, call.from, call.to, call.peer);
  }

  CallLog calls_;
};

// The same mesh with all its groups traced.
inline Mesh traced(Mesh mesh, StepLog& log) {
  return with_wrapped_groups(std::move(mesh), [&](GroupKind kind, std::unique_ptr<Communicator> group) {
    return std::unique_ptr<Communicator>(std::make_unique<TracedCommunicator>(kind, std::move(group), log));
  });
}

}  // namespace trireme
