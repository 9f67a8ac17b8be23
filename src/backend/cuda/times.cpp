#include "backend/cuda/times.h"

#include "backend/cuda/check.h"
#include "base/clock.h"

namespace trireme::cuda {

Times::~Times() {
  if (origin_ != nullptr) cudaEventDestroy(origin_);
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

// The device is idle here, so that the event and the clock are read at the same moment but for microseconds.
void Times::set_origin() {
  CUDA_CHECK(cudaDeviceSynchronize());
  if (origin_ == nullptr) origin_ = unused_event();
  CUDA_CHECK(cudaEventRecord(origin_, nullptr));
  CUDA_CHECK(cudaEventSynchronize(origin_));
  origin_seconds_ = system_clock().seconds();
}

void Times::note(cudaStream_t stream, double* seconds) {
  if (noted_.empty()) set_origin();
  noted_.push_back({unused_event(), seconds});
  CUDA_CHECK(cudaEventRecord(noted_.back().event, stream));
}

void Times::collect() {
  CUDA_CHECK(cudaDeviceSynchronize());
  for (const Noted& noted : noted_) {
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, origin_, noted.event));
    *noted.seconds = origin_seconds_ + 1e-3 * static_cast<double>(milliseconds);
    unused_.push_back(noted.event);
  }
  noted_.clear();
}

}  // namespace trireme::cuda
