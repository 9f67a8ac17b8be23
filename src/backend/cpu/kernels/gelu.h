// GELU and its derivative on vectors, in the tanh and erf forms of ops.h.
#pragma once

#include "backend/cpu/kernels/simd.h"

namespace trireme::cpu::TRIREME_ISA {

TRIREME_INLINE f32x16 absolute(f32x16 x) { return max(x, -x); }

// z/2 (1 + tanh u) = z sigmoid(2u) with u = sqrt(2/pi) (z + 0.044715 z^3), so one exponential is enough. Below 2u = -80 the
// sigmoid is under 2e-35 and is clamped.
TRIREME_INLINE f32x16 gelu_sigmoid(f32x16 z) {
  constexpr float kTwoSqrtTwoOverPi = 1.5957691216f;
  const f32x16 minus_two_u = z * (z * z * (-0.044715f * kTwoSqrtTwoOverPi) - kTwoSqrtTwoOverPi);
  return reciprocal(1.0f + exp(minus_two_u > 80.0f ? splat(80.0f) : minus_two_u));
}

TRIREME_INLINE f32x16 gelu_tanh(f32x16 z) { return z * gelu_sigmoid(z); }

TRIREME_INLINE f32x16 gelu_tanh_derivative(f32x16 z) {
  constexpr float kTwoSqrtTwoOverPi = 1.5957691216f;
  const f32x16 sigmoid = gelu_sigmoid(z);
  const f32x16 slope = sigmoid * (1.0f - sigmoid);  // derivative of the sigmoid at 2u
  return sigmoid + z * slope * (z * z * (3 * 0.044715f * kTwoSqrtTwoOverPi) + kTwoSqrtTwoOverPi);
}

// The normal distribution: z/2 (1 + erf(z / sqrt 2)) = z cdf(z).
struct Normal {
  f32x16 cdf;
  f32x16 density;
};

// The upper tail 1 - cdf(|z|) is exp(-z^2/2) q(t) with t = 1 / (1 + 0.3 |z|). q is a minimax fit of exp(z^2/2) erfc(z/sqrt 2) / 2
// for |z| <= 9, relative error 5e-8 before rounding and 3e-7 after it, so the cdf is within 2e-7 everywhere.
TRIREME_INLINE Normal normal(f32x16 z) {
  const f32x16 t = reciprocal(1.0f + 0.3f * absolute(z));
  f32x16 q = splat(0.0375357419f);
  q = q * t - 0.165019795f;
  q = q * t + 0.219971523f;
  q = q * t - 0.06640286f;
  q = q * t + 0.135420322f;
  q = q * t + 0.0977838933f;
  q = q * t + 0.121105708f;
  q = q * t + 0.119605489f;
  const f32x16 e = exp(-0.5f * z * z);
  const f32x16 tail = e * q * t;
  return {z < 0 ? tail : 1.0f - tail, e * 0.3989422804f};
}

TRIREME_INLINE f32x16 gelu_erf(f32x16 z) { return z * normal(z).cdf; }

TRIREME_INLINE f32x16 gelu_erf_derivative(f32x16 z) {
  const Normal n = normal(z);
  return n.cdf + z * n.density;
}

}  // namespace trireme::cpu::TRIREME_ISA
