// Checks CUDA calls; an error names the call and CUDA's description.
#pragma once

#include <cuda_runtime_api.h>

#include "base/error.h"

namespace trireme::cuda {

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw Failure("{}: {}", call, cudaGetErrorString(status));
}

// Checks that a kernel was launched.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace trireme::cuda

#define CUDA_CHECK(call) ::trireme::cuda::check(call, #call)
