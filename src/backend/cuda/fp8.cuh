// FP8 in kernels.
#pragma once

#include <cuda_fp8.h>

#include "backend/cuda/kernel.cuh"

namespace trireme::cuda {

using Fp8Format = __nv_fp8_interpretation_t;

template <Fp8Format kFormat>
__device__ uint32_t four_bytes(float a, float b, float c, float d) {
  const uint32_t low = __nv_cvt_float2_to_fp8x2({a, b}, __NV_SATFINITE, kFormat);
  const uint32_t high = __nv_cvt_float2_to_fp8x2({c, d}, __NV_SATFINITE, kFormat);
  return low | high << 16;
}

// The bits of |x| are ordered like the values, with NaN above all. So the maximum does not depend on the order of blocks.
__device__ inline uint32_t size_bits(float x) { return __float_as_uint(x) & 0x7fffffffu; }

// All lanes of the warp must call it.
__device__ inline void raise_amax(uint32_t largest, float* amax) {
  largest = __reduce_max_sync(0xffffffffu, largest);
  auto* bits = reinterpret_cast<uint32_t*>(amax);
  if (threadIdx.x % kWarp == 0 && largest > __ldcg(bits)) atomicMax(bits, largest);
}

}  // namespace trireme::cuda
