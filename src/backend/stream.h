// Streams and events. Work on one stream runs in the order it was enqueued; work on two streams is ordered only by an event
// that one records and the other waits for. Every op and every collective names its stream.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme {

enum class StreamKind : uint8_t { compute, tp, dp, copy, weights, pipeline };

struct Stream {
  StreamKind kind = StreamKind::compute;
  int edge = 0;  // of messages between neighbours: 2 * direction + (0 where they are sent, 1 where they are received); else 0
  bool operator==(const Stream&) const = default;
};

inline constexpr Stream kCompute{StreamKind::compute};
inline constexpr Stream kTensorParallel{StreamKind::tp};
inline constexpr Stream kDataParallel{StreamKind::dp};
inline constexpr Stream kCopy{StreamKind::copy};
inline constexpr Stream kWeightProducts{StreamKind::weights};  // those that go on beside the rest of backward
inline constexpr Stream kSendForward{StreamKind::pipeline, 0}, kReceiveForward{StreamKind::pipeline, 1};
inline constexpr Stream kSendBackward{StreamKind::pipeline, 2}, kReceiveBackward{StreamKind::pipeline, 3};

// Keys and values round the ring of context-parallel ranks, and their gradients.
inline constexpr Stream kRingSend{StreamKind::pipeline, 4}, kRingReceive{StreamKind::pipeline, 5};
inline constexpr Stream kRingGradSend{StreamKind::pipeline, 6}, kRingGradReceive{StreamKind::pipeline, 7};

// For those who keep something for each stream: its number, below kStreams. Edges are those of the last kind.
inline constexpr size_t kStreams = static_cast<size_t>(StreamKind::pipeline) + 8;
constexpr size_t number_of(Stream stream) { return static_cast<size_t>(stream.kind) + static_cast<size_t>(stream.edge); }
static_assert(number_of(kRingGradReceive) < kStreams);

// A point in a stream. The name says what is true once it is reached: "gradients_reduced", "batch_on_device".
struct Event {
  const char* name = "";
  Stream stream;
  uint64_t ticket = 0;  // the backend's own number for this point
};

}  // namespace trireme
