// Times of points in streams: CUDA events, read together when somebody asks.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

namespace trireme::cuda {

class Times {
 public:
  Times() = default;
  ~Times();
  Times(const Times&) = delete;
  Times& operator=(const Times&) = delete;

  void note(cudaStream_t stream, double* seconds);
  void collect();  // waits for the device

 private:
  struct Noted {
    cudaEvent_t event = nullptr;
    double* seconds = nullptr;
  };
  cudaEvent_t unused_event();
  void set_origin();

  cudaEvent_t origin_ = nullptr;  // times count from here: they are floats, and would lose microseconds over minutes
  double origin_seconds_ = 0;     // when that was on the host's clock
  std::vector<Noted> noted_;
  std::vector<cudaEvent_t> unused_;
};

}  // namespace trireme::cuda
