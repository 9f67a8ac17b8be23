// The group of one rank: every operand already holds the result.
#pragma once

#include "comm/communicator.h"

namespace trireme {

class SoloCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(Stream, Tensor, Reduce) override {}
  void reduce_scatter(Stream, Tensor from, Tensor to, Reduce) override { CHECK(from.data == to.data); }
  void all_gather(Stream, Tensor from, Tensor to) override { CHECK(from.data == to.data); }
  void broadcast(Stream, Tensor, int root) override { CHECK_EQ(root, 0); }
  void send(Stream, Tensor, int) override { CHECK_NEVER("a group of one has nobody to send to"); }
  void receive(Stream, Tensor, int) override { CHECK_NEVER("a group of one has nobody to receive from"); }
  void exchange(Stream, std::span<const Message> messages) override { CHECK(messages.empty()); }
  void barrier(Stream) override {}
};

}  // namespace trireme
