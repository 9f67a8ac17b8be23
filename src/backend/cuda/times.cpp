#include "backend/cuda/times.h"

#include <utility>

#include "backend/cuda/check.h"
#include "base/clock.h"

namespace trireme::cuda {

Times::~Times() {
  if (last_ != nullptr) cudaEventDestroy(last_);
  for (const Noted& noted : noted_) cudaEventDestroy(noted.event);
  for (const cudaEvent_t event : unused_) cudaEventDestroy(event);
}

cudaEvent_t Times::unused_event() {
  if (unused_.empty()) {
    cudaEvent_t made = nullptr;
    CUDA_CHECK(cudaEventCreate(&made));
    return made;
  }
  const cudaEvent_t event = unused_.back();
  unused_.pop_back();
  return event;
}

// The device is idle here, so the event and the clock are read within microseconds of each other.
void Times::set_origin() {
  CUDA_CHECK(cudaDeviceSynchronize());
  if (last_ == nullptr) last_ = unused_event();
  CUDA_CHECK(cudaEventRecord(last_, nullptr));
  CUDA_CHECK(cudaEventSynchronize(last_));
  last_seconds_ = system_clock().seconds();
}

void Times::note(cudaStream_t stream, double* seconds) {
  if (noted_.empty()) set_origin();
  noted_.push_back({unused_event(), seconds});
  CUDA_CHECK(cudaEventRecord(noted_.back().event, stream));
}

void Times::read() {
  while (!noted_.empty()) {
    const auto [event, seconds] = noted_.front();
    const cudaError_t status = cudaEventQuery(event);
    if (status == cudaErrorNotReady) {
      cudaGetLastError();  // clears the status, which is not an error here
      return;
    }
    CUDA_CHECK(status);
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, last_, event));
    *seconds = last_seconds_ += 1e-3 * static_cast<double>(milliseconds);
    unused_.push_back(std::exchange(last_, event));
    noted_.pop_front();
  }
}

void Times::collect() {
  CUDA_CHECK(cudaDeviceSynchronize());
  read();
}

}  // namespace trireme::cuda
