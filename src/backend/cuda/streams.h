// CUDA streams by name, and events as numbered points in them: the implementation of stream.h.
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
  // Events are used round-robin. A reused event marks a later point of its stream, so a wait for the earlier point may be longer,
  // never shorter. Points recorded during graph capture are not points in time: they have their own events, and tickets with the
  // highest bit set.
  static constexpr size_t kEvents = 64;
  static constexpr uint64_t kInGraph = uint64_t{1} << 63;
  struct Points {
    std::array<cudaEvent_t, kEvents> events{};
    uint64_t recorded = 0;
  };
  struct Line {
    cudaStream_t stream = nullptr;
    Points points, points_in_graph;
  };
  const Line& line(Stream stream) const { return lines_[stream.number()]; }
  Line& line(Stream stream) { return lines_[stream.number()]; }
  cudaEvent_t at(const Event& event) const {
    const Line& there = line(event.stream);
    return ((event.ticket & kInGraph) != 0 ? there.points_in_graph : there.points).events[event.ticket % kEvents];
  }

  std::array<Line, kStreams> lines_;
  DeviceStreams::Watch watch_;
};

}  // namespace trireme::cuda
