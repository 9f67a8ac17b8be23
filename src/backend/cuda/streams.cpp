#include "backend/cuda/streams.h"

#include "backend/cuda/check.h"

namespace trireme::cuda {

Streams::Streams() {
  for (Line& line : lines_) {
    CUDA_CHECK(cudaStreamCreateWithFlags(&line.stream, cudaStreamNonBlocking));
    for (cudaEvent_t& event : line.events) CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
}

Streams::~Streams() {
  for (const Line& line : lines_) {
    for (const cudaEvent_t event : line.events) cudaEventDestroy(event);
    cudaStreamDestroy(line.stream);
  }
}

Event Streams::record(Stream stream, const char* name) {
  Line& here = line(stream);
  const Event event{.name = name, .stream = stream, .ticket = ++here.recorded};
  CUDA_CHECK(cudaEventRecord(at(event), here.stream));
  return event;
}

void Streams::wait(Stream stream, const Event& event) {
  if (event.ticket == 0) return;  // nothing was ever recorded there
  CUDA_CHECK(cudaStreamWaitEvent(get(stream), at(event), 0));
}

void Streams::synchronize(const Event& event) {
  if (event.ticket == 0) return;
  CUDA_CHECK(cudaEventSynchronize(at(event)));
}

}  // namespace trireme::cuda
