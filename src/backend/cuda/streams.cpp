#include "backend/cuda/streams.h"

#include <thread>

#include "backend/cuda/check.h"
#include "base/clock.h"

namespace trireme::cuda {

Streams::Streams() {
  int lowest = 0, highest = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  for (Line& line : lines_) {
    const bool beside = &line == &this->line(kWgrad);  // wgrad yields to the work it overlaps with
    CUDA_CHECK(cudaStreamCreateWithPriority(&line.stream, cudaStreamNonBlocking, beside ? lowest : highest));
    for (Points* points : {&line.points, &line.points_in_graph})
      for (cudaEvent_t& event : points->events) CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
}

Streams::~Streams() {
  for (const Line& line : lines_) {
    for (const Points* points : {&line.points, &line.points_in_graph})
      for (const cudaEvent_t event : points->events) cudaEventDestroy(event);
    cudaStreamDestroy(line.stream);
  }
}

Event Streams::record(Stream stream, const char* name) {
  Line& here = line(stream);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CUDA_CHECK(cudaStreamIsCapturing(here.stream, &status));
  const bool in_graph = status != cudaStreamCaptureStatusNone;
  const uint64_t ticket = in_graph ? ++here.points_in_graph.recorded | kInGraph : ++here.points.recorded;
  const Event event{.name = name, .stream = stream, .ticket = ticket};
  CUDA_CHECK(cudaEventRecord(at(event), here.stream));
  return event;
}

void Streams::wait(Stream stream, const Event& event) {
  if (event.ticket == 0) return;  // no event was recorded
  CUDA_CHECK(cudaStreamWaitEvent(get(stream), at(event), 0));
}

bool Streams::reached(const Event& event) const {
  if (event.ticket == 0) return true;
  const cudaError_t status = cudaEventQuery(at(event));
  if (status == cudaErrorNotReady) return false;
  CUDA_CHECK(status);
  return true;
}

// Work that waits for other ranks may never end. If there is a watch, the host polls instead of blocking, so that the watch can
// report it.
void Streams::synchronize(const Event& event) {
  if (event.ticket == 0) return;
  if (!watch_) return CUDA_CHECK(cudaEventSynchronize(at(event)));
  const Stopwatch watch;
  constexpr double kSpin = 0.002;  // seconds; after that the latency of polling no longer matters
  for (double waited = 0; !reached(event); waited = watch.seconds()) {
    watch_(event, waited);
    if (waited > kSpin) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace trireme::cuda
