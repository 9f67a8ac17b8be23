// A communicator that exchanges nothing. It records which collectives a step calls and how much memory they need. A receive
// returns at once, so that one rank is recorded without the others.
#pragma once

#include <algorithm>

#include "backend/step_log.h"
#include "comm/communicator.h"
#include "comm/group_kind.h"

namespace trireme {

// Records calls in a log, if there is one. Groups of one rank are left out, because they exchange nothing.
class CallLog {
 public:
  CallLog(GroupKind group, int size, StepLog* log) : group_(name_of(group)), log_(size > 1 ? log : nullptr) {}
  void add(const char* call, Stream stream, const Tensor& from, const Tensor& to, int peer = -1) const {
    if (log_ == nullptr) return;
    log_->add({.kind = RecordKind::collective,
               .name = call,
               .stream = stream,
               .bytes_read = from.bytes(),
               .bytes_written = to.bytes(),
               .group = group_,
               .peer = peer});
    if (StepWatcher* watcher = log_->watcher(); watcher != nullptr) {
      watcher->begin_call(stream, 0);
      watcher->access(from, Access::read);
      watcher->access(to, Access::written);
    }
  }
  void add(Stream stream, std::span<const Message> messages) const {
    for (const Message& m : messages)
      m.way == Message::Way::send ? add("exchange_send", stream, m.values, {}, m.peer)
                                  : add("exchange_receive", stream, {}, m.values, m.peer);
  }

 private:
  const char* group_;
  StepLog* log_;
};

class CostCommunicator final : public Communicator {
 public:
  CostCommunicator(GroupKind group, int rank, int size, StepLog* log) : rank_(rank), size_(size), calls_(group, size, log) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(Stream stream, Tensor values, Reduce) override {
    calls_.add("all_reduce", stream, values, values);
    stage(values);
  }
  void reduce_scatter(Stream stream, Tensor from, Tensor to, Reduce) override {
    calls_.add("reduce_scatter", stream, from, to);
    stage(from);
  }
  void all_gather(Stream stream, Tensor from, Tensor to) override { calls_.add("all_gather", stream, from, to); }
  void broadcast(Stream stream, Tensor values, int root) override { calls_.add("broadcast", stream, values, values, root); }
  void send(Stream stream, Tensor values, int to) override { calls_.add("send", stream, values, {}, to); }
  void receive(Stream stream, Tensor values, int from) override { calls_.add("receive", stream, {}, values, from); }
  void exchange(Stream stream, std::span<const Message> messages) override { calls_.add(stream, messages); }
  void barrier(Stream stream) override { calls_.add("barrier", stream, {}, {}); }

  int64_t staging_bytes() const { return staging_; }  // memory for the other ranks' pieces during a reduction

 private:
  void stage(const Tensor& values) {
    if (size_ > 1) staging_ = std::max(staging_, values.bytes());
  }

  int rank_, size_;
  CallLog calls_;
  int64_t staging_ = 0;
};

}  // namespace trireme
