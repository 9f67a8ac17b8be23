// CUDA streams by name, and events as numbered points in them: stream.h's, made real.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "backend/device_streams.h"

namespace trireme::cuda {

class Streams {
 public:
  Streams();
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  cudaStream_t get(Stream stream) const { return line(stream).stream; }
  Event record(Stream stream, const char* name);
  void wait(Stream stream, const Event& event);
  void synchronize(const Event& event);
  bool reached(const Event& event) const;
  void set_watch(DeviceStreams::Watch watch) { watch_ = std::move(watch); }

 private:
  // Events are used in turn. One that has been used again stands for a later point of its stream, so that waiting for it is
  // waiting a little longer, never too short.
  static constexpr size_t kEvents = 64;
  struct Line {
    cudaStream_t stream = nullptr;
    std::array<cudaEvent_t, kEvents> events{};
    uint64_t recorded = 0;
  };
  static constexpr size_t kLines = 12;
  static size_t index(Stream stream) { return static_cast<size_t>(stream.kind) + static_cast<size_t>(stream.edge); }
  const Line& line(Stream stream) const { return lines_[index(stream)]; }
  Line& line(Stream stream) { return lines_[index(stream)]; }
  cudaEvent_t at(const Event& event) const { return line(event.stream).events[event.ticket % kEvents]; }

  std::array<Line, kLines> lines_;
  DeviceStreams::Watch watch_;
};

}  // namespace trireme::cuda
