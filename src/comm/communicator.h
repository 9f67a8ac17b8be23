// A group of ranks and the collectives that join them. Calls are enqueued on a stream, like ops, and complete in its order; an
// event recorded after one is reached when its result is there. Every rank of the group makes the same calls in the same order.
#pragma once

#include <span>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace trireme {

enum class Reduce : uint8_t { sum, max };

// One of several messages that are exchanged together. Both sides name the same channel: what is sent on one arrives on it, in
// order.
struct Message {
  enum class Way : uint8_t { send, receive };
  Way way = Way::send;
  Tensor values;
  int peer = 0;
  Channel channel = Channel::forward;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void all_reduce(Stream stream, Tensor values, Reduce reduce) = 0;  // in place
  virtual void reduce_scatter(Stream stream, Tensor from, Tensor to,
                              Reduce reduce) = 0;                      // to: the rank-th of size() equal pieces; may alias it
  virtual void all_gather(Stream stream, Tensor from, Tensor to) = 0;  // from: the rank-th piece of to; may alias it
  virtual void broadcast(Stream stream, Tensor values, int root) = 0;
  virtual void send(Stream stream, Tensor values, int to) = 0;
  virtual void receive(Stream stream, Tensor values, int from) = 0;
  virtual void exchange(Stream stream, std::span<const Message> messages) = 0;  // up to kMostMessages of them, under way at once
  virtual void barrier(Stream stream) = 0;

  static constexpr size_t kMostMessages = 4;  // to and from two neighbours
};

}  // namespace trireme
