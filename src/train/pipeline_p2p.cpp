#include "train/pipeline_p2p.h"

namespace trireme {
namespace {

Stream stream_of(const Message& message) {
  return message.way == Message::Way::send ? Stream::sending(message.channel) : Stream::receiving(message.channel);
}

}  // namespace

PipelineMessages::PipelineMessages(const Pipeline& pipeline, MessageBatches batches, StreamEvents& events, Communicator& stages,
                                   const Shape& shape, DType dtype, Arena& scratch)
    : mode_(pipeline.messages), batches_(batches), events_(events), stages_(stages) {
  const int size = stages.size(), behind = (stages.rank() + 1) % size, before = (stages.rank() + size - 1) % size;
  lane(Direction::forward).from = lane(Direction::backward).to = before;
  lane(Direction::forward).to = lane(Direction::backward).from = behind;
  lane(Direction::backward).channel = Channel::backward;
  if (size == 1) return;
  for (Lane& each : lanes_)
    for (int64_t i = 0; i < message_buffers(mode_); ++i) {
      each.in.push_back(scratch.take(shape, dtype));
      each.out.push_back(scratch.take(shape, dtype));
      each.arrived.emplace_back();
      each.sent.emplace_back();
    }
  pending_.reserve(Communicator::kMostMessages);
}

void PipelineMessages::receive(Direction direction) {
  Lane& to = lane(direction);
  const size_t buffer = to.received++ % to.in.size();
  start({Message::Way::receive, to.in[buffer], to.from, to.channel}, to, buffer);
}

void PipelineMessages::send(Direction direction) {
  Lane& from = lane(direction);
  const size_t buffer = from.sends++ % from.out.size();
  start({Message::Way::send, from.out[buffer], from.to, from.channel}, from, buffer);
}

void PipelineMessages::start(const Message& message, Lane& lane, size_t buffer) {
  if (mode_ == Messages::waited && batches_ == MessageBatches::yes) {
    pending_.push_back(message);
    return;
  }
  // What is sent must have been written; where something arrives may still be read.
  const bool sends = message.way == Message::Way::send;
  const Stream stream = stream_of(message);
  events_.wait(stream, events_.record(kCompute, sends ? "ready_to_send" : "buffer_free"));
  if (sends)
    stages_.send(stream, message.values, message.peer);
  else
    stages_.receive(stream, message.values, message.peer);
  (sends ? lane.sent : lane.arrived)[buffer] = events_.record(stream, sends ? "sent" : "received");
  if (mode_ == Messages::waited) pending_.push_back(message);
}

void PipelineMessages::exchange() {
  if (pending_.empty()) return;
  if (batches_ == MessageBatches::yes) {
    events_.wait(kSendForward, events_.record(kCompute, "ready_to_exchange"));
    stages_.exchange(kSendForward, pending_);
    events_.wait(kCompute, events_.record(kSendForward, "exchanged"));
  } else {
    for (const Message& message : pending_) events_.wait(kCompute, events_.record(stream_of(message), "exchanged"));
  }
  pending_.clear();
}

Tensor PipelineMessages::arrived(Direction direction) {
  Lane& from = lane(direction);
  const size_t buffer = from.taken++ % from.in.size();
  if (mode_ == Messages::overlapped) events_.wait(kCompute, from.arrived[buffer]);
  return from.in[buffer];
}

Tensor PipelineMessages::outgoing(Direction direction) {
  Lane& to = lane(direction);
  const size_t buffer = to.sends % to.out.size();
  if (mode_ == Messages::overlapped) events_.wait(kCompute, to.sent[buffer]);
  return to.out[buffer];
}

void PipelineMessages::wait_for_sent() const {
  for (const Lane& lane : lanes_)
    for (const Event& sent : lane.sent) events_.wait(kCompute, sent);
}

}  // namespace trireme
