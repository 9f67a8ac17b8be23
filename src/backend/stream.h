// Streams and events. Work on one stream runs in the order it was enqueued; work on two streams is ordered only by an event
// that one records and the other waits for. Every op and every collective names its stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace trireme {

// A sequence of p2p messages in one direction. Each of its ends has a stream of its own.
enum class Channel : uint8_t {
  forward,    // activations to the next pipeline stage
  backward,   // their gradients to the previous one
  ring,       // keys and values to the next context-parallel rank
  ring_grad,  // their gradients, the same way
};
inline constexpr size_t kChannels = 4;

enum class StreamKind : uint8_t { compute, tp, dp, copy, wgrad };  // those that are not the end of a channel

class Stream {
 public:
  constexpr Stream() = default;  // compute
  constexpr explicit Stream(StreamKind kind) : number_(static_cast<uint8_t>(kind)) {}
  static constexpr Stream sending(Channel channel) { return end_of(channel, 0); }
  static constexpr Stream receiving(Channel channel) { return end_of(channel, 1); }

  constexpr bool has_channel() const { return number_ >= kKinds; }
  constexpr Channel channel() const {  // only where there is one
    CHECK(has_channel());
    return static_cast<Channel>((number_ - kKinds) / 2);
  }
  // Where the peer of a send or receive makes the matching call: the other end of the channel. A stream without one is its own.
  constexpr Stream peer_end() const {
    if (!has_channel()) return *this;
    return *this == sending(channel()) ? receiving(channel()) : sending(channel());
  }
  constexpr size_t number() const { return number_; }  // below kStreams, different for each stream
  bool operator==(const Stream&) const = default;

 private:
  static constexpr uint8_t kKinds = static_cast<uint8_t>(StreamKind::wgrad) + 1;
  static constexpr Stream end_of(Channel channel, uint8_t end) {
    Stream stream;
    stream.number_ = static_cast<uint8_t>(kKinds + 2 * static_cast<uint8_t>(channel) + end);
    return stream;
  }

  uint8_t number_ = 0;  // the kinds, then both ends of each channel
};

inline constexpr Stream kCompute{StreamKind::compute};
inline constexpr Stream kTensorParallel{StreamKind::tp};
inline constexpr Stream kDataParallel{StreamKind::dp};
inline constexpr Stream kCopy{StreamKind::copy};
inline constexpr Stream kWgrad{StreamKind::wgrad};  // wgrad GEMMs that overlap the rest of backward
inline constexpr Stream kSendForward = Stream::sending(Channel::forward), kReceiveForward = Stream::receiving(Channel::forward);
inline constexpr Stream kSendBackward = Stream::sending(Channel::backward);
inline constexpr Stream kReceiveBackward = Stream::receiving(Channel::backward);
inline constexpr Stream kRingSend = Stream::sending(Channel::ring), kRingReceive = Stream::receiving(Channel::ring);
inline constexpr Stream kRingGradSend = Stream::sending(Channel::ring_grad);
inline constexpr Stream kRingGradReceive = Stream::receiving(Channel::ring_grad);

// For arrays with one element per stream, indexed by number().
inline constexpr size_t kStreams = static_cast<size_t>(StreamKind::wgrad) + 1 + 2 * kChannels;
static_assert(kRingGradReceive.number() == kStreams - 1);

// A point in a stream. The name says what is true once it is reached: "gradients_reduced", "batch_on_device".
struct Event {
  const char* name = "";
  Stream stream;
  uint64_t ticket = 0;  // the backend's own number for this point
};

}  // namespace trireme
