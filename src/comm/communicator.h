// A group of ranks and the collectives that join them. Calls are enqueued on a stream, like ops, and complete in its order; an
// event recorded after one is reached when its result is there. Every rank of the group makes the same calls in the same order.
#pragma once

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace trireme {

enum class Reduce : uint8_t { sum, max };

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
  virtual void barrier(Stream stream) = 0;
};

}  // namespace trireme
