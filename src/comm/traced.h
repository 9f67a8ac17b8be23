// Another communicator, with every call written down in a log before it is made.
#pragma once

#include <memory>

#include "comm/cost.h"
#include "comm/mesh.h"

namespace trireme {

class TracedCommunicator final : public Communicator {
 public:
  TracedCommunicator(const char* name, std::unique_ptr<Communicator> inner, StepLog& log)
      : inner_(std::move(inner)), calls_(name, inner_->size(), &log) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_reduce(Stream stream, Tensor values, Reduce reduce) override {
    calls_.add("all_reduce", stream, values, values);
    inner_->all_reduce(stream, values, reduce);
  }
  void reduce_scatter(Stream stream, Tensor from, Tensor to, Reduce reduce) override {
    calls_.add("reduce_scatter", stream, from, to);
    inner_->reduce_scatter(stream, from, to, reduce);
  }
  void all_gather(Stream stream, Tensor from, Tensor to) override {
    calls_.add("all_gather", stream, from, to);
    inner_->all_gather(stream, from, to);
  }
  void broadcast(Stream stream, Tensor values, int root) override {
    calls_.add("broadcast", stream, values, values, root);
    inner_->broadcast(stream, values, root);
  }
  void send(Stream stream, Tensor values, int to) override {
    calls_.add("send", stream, values, {}, to);
    inner_->send(stream, values, to);
  }
  void receive(Stream stream, Tensor values, int from) override {
    calls_.add("receive", stream, {}, values, from);
    inner_->receive(stream, values, from);
  }
  void exchange(Stream stream, std::span<const Message> messages) override {
    calls_.add(stream, messages);
    inner_->exchange(stream, messages);
  }
  void barrier(Stream stream) override {
    calls_.add("barrier", stream, {}, {});
    inner_->barrier(stream);
  }

 private:
  std::unique_ptr<Communicator> inner_;
  CallLog calls_;
};

// The same mesh with all its groups traced.
inline Mesh traced(Mesh mesh, StepLog& log) {
  const auto trace = [&](const char* name, std::unique_ptr<Communicator>& group) {
    if (group) group = std::make_unique<TracedCommunicator>(name, std::move(group), log);
  };
  trace("tp", mesh.tp), trace("cp", mesh.cp), trace("dp", mesh.dp), trace("pp", mesh.pp), trace("dp_cp", mesh.dp_cp);
  trace("embedding", mesh.embedding), trace("world", mesh.world);
  return mesh;
}

}  // namespace trireme
