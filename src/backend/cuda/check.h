// Every CUDA call is checked; what fails names the call and CUDA's own word for it.
#pragma once

#include <cuda_runtime_api.h>

#include "base/error.h"

namespace trireme::cuda {

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw Failure("{}: {}", call, cudaGetErrorString(status));
}

// After a kernel was launched: whether it could be.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace trireme::cuda

#define CUDA_CHECK(call) ::trireme::cuda::check(call, #call)
