// Kernels of the elementwise ops: activations, conversions and sums.
#pragma once

#include "backend/cpu/kernels/pointwise_arguments.h"

namespace trireme::cpu {

struct PointwiseKernels {
  PerDType<void (*)(const void* pre, void* out, int64_t count)> gelu_tanh;
  PerDType<void (*)(const void* pre, void* out, int64_t count)> gelu_erf;
  // One row: gate and up [F].
  PerDType<void (*)(const void* gate, const void* up, void* out, int64_t width)> swiglu_forward;
  PerDType<void (*)(const void* gate, const void* up, const void* d_out, void* d_gate, void* d_up, int64_t width)>
      swiglu_backward;
  PerDType<void (*)(const float* from, void* to, int64_t count)> from_f32;  // to the dtype
  PerDType<void (*)(const void* from, float* to, int64_t count)> to_f32;
  PerDType<void (*)(const void* from, float* to, int64_t count)> accumulate;
};
TRIREME_DECLARE_KERNELS(PointwiseKernels, pointwise_kernels)

}  // namespace trireme::cpu
