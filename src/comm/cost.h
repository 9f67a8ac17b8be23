// A group that exists only on paper: the step that is recorded before a run finds here how much memory its collectives will need.
// A receive returns at once, so that a rank can be recorded alone.
#pragma once

#include <algorithm>

#include "comm/communicator.h"

namespace trireme {

class CostCommunicator final : public Communicator {
 public:
  CostCommunicator(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(Stream, Tensor values, Reduce) override { stage(values); }
  void reduce_scatter(Stream, Tensor from, Tensor, Reduce) override { stage(from); }
  void all_gather(Stream, Tensor, Tensor) override {}
  void broadcast(Stream, Tensor, int) override {}
  void send(Stream, Tensor, int) override {}
  void receive(Stream, Tensor, int) override {}
  void barrier(Stream) override {}

  int64_t staging_bytes() const { return staging_; }  // of the pieces of others, while they are summed

 private:
  void stage(const Tensor& values) {
    if (size_ > 1) staging_ = std::max(staging_, values.bytes());
  }

  int rank_, size_;
  int64_t staging_ = 0;
};

}  // namespace trireme
