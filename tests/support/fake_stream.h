// A stream of FakeDevice, as the libraries of that device see it: what DeviceStreams::native() points to.
#pragma once

#include <cstdint>
#include <functional>

namespace trireme {

struct FakeStream {
  static constexpr uint64_t kMark = 0x6d61657274732121;

  FakeStream() = default;
  virtual ~FakeStream() { mark = 0; }
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;

  virtual void enqueue(std::function<void()> task) = 0;  // runs after all earlier work of the stream, which waits for it

  uint64_t mark = kMark;  // tells a stream from any other pointer
};

}  // namespace trireme
