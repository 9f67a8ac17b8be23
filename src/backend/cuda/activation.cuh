// The activation functions and their derivatives.
#pragma once

#include "backend/cuda/kernel.cuh"

namespace trireme::cuda {

// 1 / (1 + exp(-z)). If the exponential overflows, the result is 0.
__device__ inline float sigmoid(float z) { return __fdividef(1.0f, 1 + __expf(-z)); }

inline constexpr float kTwoSqrt2OverPi = 1.5957691216057308f, kGeluCubic = 0.044715f;
inline constexpr float kInverseRoot2 = 0.70710678118654752f, kNormalDensity = 0.3989422804014327f;  // 1/sqrt(2 pi)

template <Activation kind>
__device__ float activate(float z) {
  if constexpr (kind == Activation::gelu_tanh) {
    // (1 + tanh(u)) / 2 = sigmoid(2 u), which stays precise where tanh is near -1.
    return z * sigmoid(kTwoSqrt2OverPi * (z + kGeluCubic * z * z * z));
  } else if constexpr (kind == Activation::gelu_erf) {
    return 0.5f * z * (1 + erff(z * kInverseRoot2));
  } else {
    return z;
  }
}

// Accurate to 2^-20, enough for 8-bit and 16-bit results.
template <Activation kind>
__device__ float activation_slope(float z) {
  if constexpr (kind == Activation::gelu_tanh) {
    const float s = sigmoid(kTwoSqrt2OverPi * (z + kGeluCubic * z * z * z));
    return s + z * s * (1 - s) * kTwoSqrt2OverPi * (1 + 3 * kGeluCubic * z * z);
  } else if constexpr (kind == Activation::gelu_erf) {
    return 0.5f * (1 + erff(z * kInverseRoot2)) + z * kNormalDensity * __expf(-0.5f * z * z);
  } else {
    return 1;
  }
}

}  // namespace trireme::cuda
