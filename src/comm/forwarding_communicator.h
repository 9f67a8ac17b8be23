// A communicator that forwards every call to another one. Subclasses override before() and after().
#pragma once

#include <memory>

#include "comm/mesh.h"

namespace trireme {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_reduce(Stream stream, Tensor values, Reduce reduce) final {
    pass_on({.name = "all_reduce", .stream = stream, .from = values, .to = values},
            [&] { inner_->all_reduce(stream, values, reduce); });
  }
  void reduce_scatter(Stream stream, Tensor from, Tensor to, Reduce reduce) final {
    pass_on({.name = "reduce_scatter", .stream = stream, .from = from, .to = to},
            [&] { inner_->reduce_scatter(stream, from, to, reduce); });
  }
  void all_gather(Stream stream, Tensor from, Tensor to) final {
    pass_on({.name = "all_gather", .stream = stream, .from = from, .to = to}, [&] { inner_->all_gather(stream, from, to); });
  }
  void broadcast(Stream stream, Tensor values, int root) final {
    pass_on({.name = "broadcast", .stream = stream, .from = values, .to = values, .peer = root},
            [&] { inner_->broadcast(stream, values, root); });
  }
  void send(Stream stream, Tensor values, int to) final {
    pass_on({.name = "send", .stream = stream, .from = values, .peer = to}, [&] { inner_->send(stream, values, to); });
  }
  void receive(Stream stream, Tensor values, int from) final {
    pass_on({.name = "receive", .stream = stream, .to = values, .peer = from}, [&] { inner_->receive(stream, values, from); });
  }
  void exchange(Stream stream, std::span<const Message> messages) final {
    pass_on({.name = "exchange", .stream = stream, .messages = messages}, [&] { inner_->exchange(stream, messages); });
  }
  void barrier(Stream stream) final {
    pass_on({.name = "barrier", .stream = stream}, [&] { inner_->barrier(stream); });
  }

 protected:
  struct Call {
    const char* name = nullptr;
    Stream stream = {};
    Tensor from = {}, to = {};
    int peer = -1;  // of send and receive; the root of a broadcast
    std::span<const Message> messages = {};

    // Bytes that the call moves: those of the larger operand, or of all messages.
    int64_t bytes() const {
      int64_t sum = 0;
      for (const Message& message : messages) sum += message.values.bytes();
      return sum + std::max(from.bytes(), to.bytes());
    }
  };

  virtual void before(const Call&) {}  // the call is enqueued
  virtual void after(const Call&) {}

 private:
  template <class Make>
  void pass_on(const Call& call, const Make& make_call) {
    before(call);
    make_call();
    after(call);
  }

  std::unique_ptr<Communicator> inner_;
};

// Returns the same mesh with each group replaced by wrap(kind, group).
template <class Wrap>
Mesh with_wrapped_groups(Mesh mesh, const Wrap& wrap) {
  const auto replace = [&](GroupKind kind, std::unique_ptr<Communicator>& group) {
    if (group) group = wrap(kind, std::move(group));
  };
  replace(GroupKind::tp, mesh.tp), replace(GroupKind::cp, mesh.cp), replace(GroupKind::dp, mesh.dp),
      replace(GroupKind::pp, mesh.pp), replace(GroupKind::dp_cp, mesh.dp_cp);
  replace(GroupKind::embedding, mesh.embedding), replace(GroupKind::world, mesh.world);
  return mesh;
}

}  // namespace trireme
