// P2p sends and receives between pipeline stages: activations to the next chunk, their gradients to the previous one. The engine
// calls receive and send in the order of its schedule and asks for the tensors when it computes.
//
// Overlapped, each direction has a stream, and a computation waits only for the buffers it reads and writes. Otherwise all
// transfers between two computations are one exchange, and the next computation waits for it.
#pragma once

#include <array>

#include "backend/backend.h"
#include "comm/communicator.h"
#include "train/schedule.h"

namespace trireme {

enum class Direction : uint8_t { forward, backward };
enum class MessageBatches : uint8_t { no, yes };  // transfers that are waited for: one call each, or one for all

class PipelineMessages {
 public:
  PipelineMessages(const Pipeline& pipeline, MessageBatches batches, StreamEvents& events, Communicator& stages,
                   const Shape& shape, DType dtype, Arena& scratch);

  void receive(Direction direction);
  void send(Direction direction);
  // Call before each computation and at the end of the schedule.
  void exchange();

  // Returns the oldest tensor received and not yet returned; later work on the compute stream waits for it.
  Tensor arrived(Direction direction);
  // Returns the buffer of the next send, for the compute stream to write.
  Tensor outgoing(Direction direction);

  void wait_for_sent() const;  // later work on the compute stream waits for all sends

 private:
  struct Lane {
    std::vector<Tensor> in, out;       // rings of buffers, [R,C] each
    std::vector<Event> arrived, sent;  // by buffer
    size_t received = 0, taken = 0, sends = 0;
    Channel channel = Channel::forward;
    int from = 0, to = 0;
  };

  Lane& lane(Direction direction) { return lanes_[static_cast<size_t>(direction)]; }
  void start(const Message& message, Lane& lane, size_t buffer);

  Messages mode_;
  MessageBatches batches_;
  StreamEvents& events_;
  Communicator& stages_;
  std::array<Lane, 2> lanes_;
  std::vector<Message> pending_;  // since the last computation
};

}  // namespace trireme
