// A group of ranks and its collectives. Calls are enqueued on a stream, like ops, and complete in the stream's order. An event
// recorded after a call is reached when the call's result is written. Every rank of the group makes the same calls in the same
// order.
#pragma once

#include <span>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace trireme {

enum class Reduce : uint8_t { sum, max };

// One of several messages of an exchange. Both sides name the same channel; messages on one channel arrive in the order in which
// they are sent.
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
                              Reduce reduce) = 0;  // `to` is this rank's one of size() equal pieces of `from`; may alias it
  virtual void all_gather(Stream stream, Tensor from, Tensor to) = 0;  // `from` is this rank's piece of `to`; may alias it
  virtual void broadcast(Stream stream, Tensor values, int root) = 0;
  virtual void send(Stream stream, Tensor values, int to) = 0;
  virtual void receive(Stream stream, Tensor values, int from) = 0;
  virtual void exchange(Stream stream, std::span<const Message> messages) = 0;  // up to kMostMessages, all in flight together
  virtual void barrier(Stream stream) = 0;

  static constexpr size_t kMostMessages = 4;  // to and from two neighbours
};

}  // namespace trireme
