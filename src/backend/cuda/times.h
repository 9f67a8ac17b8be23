// Times of points in streams: CUDA events, read when somebody asks.
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
  void read();     // those that are reached, up to the first that is not
  void collect();  // all of them: waits for the device

 private:
  struct Noted {
    cudaEvent_t event = nullptr;
    double* seconds = nullptr;
  };
  cudaEvent_t unused_event();
  void set_origin();

  // The event read last, and its time on the host's clock. The device measures from one event to the next: in floats, which
  // would lose microseconds over minutes.
  cudaEvent_t last_ = nullptr;
  double last_seconds_ = 0;
  std::deque<Noted> noted_;
  std::vector<cudaEvent_t> unused_;
};

}  // namespace trireme::cuda
