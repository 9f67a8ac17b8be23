// Times of points in streams, by CUDA events that are read later.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <vector>

namespace trireme::cuda {

class Times {
 public:
  Times() = default;
  ~Times();
  Times(const Times&) = delete;
  Times& operator=(const Times&) = delete;

  void note(cudaStream_t stream, double* seconds);
  void read();     // reads the times of events up to the first that is not reached
  void collect();  // waits for the device and reads all

 private:
  struct Noted {
    cudaEvent_t event = nullptr;
    double* seconds = nullptr;
  };
  cudaEvent_t unused_event();
  void set_origin();

  // The event read last, and its time on the host's clock. Times are measured from one event to the next, because CUDA returns
  // floats, which would lose microseconds over minutes.
  cudaEvent_t last_ = nullptr;
  double last_seconds_ = 0;
  std::deque<Noted> noted_;
  std::vector<cudaEvent_t> unused_;
};

}  // namespace trireme::cuda
