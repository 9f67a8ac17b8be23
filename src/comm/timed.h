// Another communicator, with every call's begin and end noted while a trace is on.
#pragma once

#include <memory>

#include "backend/op_trace.h"
#include "comm/mesh.h"

namespace trireme {

class TimedCommunicator final : public Communicator {
 public:
  TimedCommunicator(const char* name, std::unique_ptr<Communicator> inner, Backend& backend, OpTrace& trace)
      : name_(name), inner_(std::move(inner)), backend_(backend), trace_(trace) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_reduce(Stream stream, Tensor values, Reduce reduce) override {
    time("all_reduce", stream, values, [&] { inner_->all_reduce(stream, values, reduce); });
  }
  void reduce_scatter(Stream stream, Tensor from, Tensor to, Reduce reduce) override {
    time("reduce_scatter", stream, from, [&] { inner_->reduce_scatter(stream, from, to, reduce); });
  }
  void all_gather(Stream stream, Tensor from, Tensor to) override {
    time("all_gather", stream, to, [&] { inner_->all_gather(stream, from, to); });
  }
  void broadcast(Stream stream, Tensor values, int root) override {
    time("broadcast", stream, values, [&] { inner_->broadcast(stream, values, root); });
  }
  void send(Stream stream, Tensor values, int to) override {
    time("send", stream, values, [&] { inner_->send(stream, values, to); });
  }
  void receive(Stream stream, Tensor values, int from) override {
    time("receive", stream, values, [&] { inner_->receive(stream, values, from); });
  }
  void exchange(Stream stream, std::span<const Message> messages) override {
    double bytes = 0;
    for (const Message& message : messages) bytes += static_cast<double>(message.values.bytes());
    time("exchange", stream, bytes, [&] { inner_->exchange(stream, messages); });
  }
  void barrier(Stream stream) override {
    time("barrier", stream, 0.0, [&] { inner_->barrier(stream); });
  }

 private:
  template <class Do>
  void time(const char* what, Stream stream, const Tensor& values, const Do& make_call) {
    time(what, stream, static_cast<double>(values.bytes()), make_call);
  }
  template <class Do>
  void time(const char* what, Stream stream, double bytes, const Do& make_call) {
    if (trace_.tracing() != Tracing::times) return make_call();
    TracedCall& call =
        trace_.add({.kind = TracedCall::Kind::collective, .name = what, .group = name_, .stream = stream, .bytes = bytes});
    backend_.note_time(stream, &call.begin);
    make_call();
    backend_.note_time(stream, &call.end);
  }

  const char* name_;
  std::unique_ptr<Communicator> inner_;
  Backend& backend_;
  OpTrace& trace_;
};

// The same mesh with all its groups of more than one rank timed.
inline Mesh timed(Mesh mesh, Backend& backend, OpTrace& trace) {
  const auto watch = [&](const char* name, std::unique_ptr<Communicator>& group) {
    if (group && group->size() > 1) group = std::make_unique<TimedCommunicator>(name, std::move(group), backend, trace);
  };
  watch("tp", mesh.tp), watch("cp", mesh.cp), watch("dp", mesh.dp), watch("pp", mesh.pp), watch("dp_cp", mesh.dp_cp);
  watch("embedding", mesh.embedding), watch("world", mesh.world);
  return mesh;
}

}  // namespace trireme
