// The messages between pipeline stages: the residual stream to the chunk behind, its gradient to the chunk before. The engine
// calls receive and send where they stand on its list, and asks for the tensors when it computes.
//
// Overlapped, each direction has a stream, and a computation waits only for what it reads and for the memory it writes. Otherwise
// everything that stands between two computations is exchanged at once and waited for.
#pragma once

#include <array>

#include "backend/backend.h"
#include "comm/communicator.h"
#include "train/schedule.h"

namespace trireme {

enum class Direction : uint8_t { forward, backward };
enum class MessageBatches : uint8_t { no, yes };  // waited-for messages: each by itself, or all in one call

class PipelineMessages {
 public:
  PipelineMessages(const Pipeline& pipeline, MessageBatches batches, Backend& backend, Communicator& stages, const Shape& shape,
                   DType dtype, Arena& scratch);

  void receive(Direction direction);
  void send(Direction direction);
  // Before each computation, and at the end of the list.
  void exchange();

  // The oldest message that was received and not asked for yet; what comes next on the compute stream finds it there.
  Tensor arrived(Direction direction);
  // Where what is sent next can be written.
  Tensor outgoing(Direction direction);

  void wait_for_sent() const;  // until nothing reads the buffers any more

 private:
  struct Lane {
    std::vector<Tensor> in, out;       // rings of buffers, [R,C] each
    std::vector<Event> arrived, sent;  // by buffer
    size_t received = 0, taken = 0, sends = 0;
    Stream receive_stream, send_stream;
    int from = 0, to = 0;
  };

  Lane& lane(Direction direction) { return lanes_[static_cast<size_t>(direction)]; }
  void start(const Message& message, Lane& lane, size_t buffer);

  Messages mode_;
  MessageBatches batches_;
  Backend& backend_;
  Communicator& stages_;
  std::array<Lane, 2> lanes_;
  std::vector<Message> pending_;  // of those that are waited for
};

}  // namespace trireme
