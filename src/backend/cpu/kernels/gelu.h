// GELU and its derivative on vectors, both in the tanh and in the erf form of ops.h.
#pragma once

#include "backend/cpu/kernels/simd.h"

namespace trireme::cpu::TRIREME_ISA {

TRIREME_INLINE f32x16 absolute(f32x16 x) { return max(x, -x); }

// z/2 (1 + tanh u) = z sigmoid(2u) with u = sqrt(2/pi) (z + 0.044715 z^3), so one exponential is enough. Its argument is never
// positive: nothing overflows, and sigmoid(-x) keeps its relative precision.
struct TanhGate {
  f32x16 sigmoid;  // of 2u
  f32x16 slope;    // of the sigmoid at 2u
};
TRIREME_INLINE TanhGate tanh_gate(f32x16 z) {
  constexpr float kTwoSqrtTwoOverPi = 1.5957691216f;
  const f32x16 two_u = z * kTwoSqrtTwoOverPi * (1.0f + 0.044715f * z * z);
  const f32x16 e = exp(-absolute(two_u));
  const f32x16 share = 1.0f / (1.0f + e);
  return {two_u < 0 ? e * share : share, e * share * share};
}

TRIREME_INLINE f32x16 gelu_tanh(f32x16 z) { return z * tanh_gate(z).sigmoid; }

TRIREME_INLINE f32x16 gelu_tanh_derivative(f32x16 z) {
  constexpr float kTwoSqrtTwoOverPi = 1.5957691216f;
  const TanhGate gate = tanh_gate(z);
  return gate.sigmoid + z * gate.slope * (kTwoSqrtTwoOverPi * (1.0f + 3 * 0.044715f * z * z));
}

// The normal distribution: z/2 (1 + erf(z / sqrt 2)) = z cdf(z).
struct Normal {
  f32x16 cdf;
  f32x16 density;
};

// The upper tail 1 - cdf(|z|) is exp(-z^2/2) q(t) with t = 1 / (1 + 0.3 |z|). q is a minimax fit of exp(z^2/2) erfc(z/sqrt 2) / 2
// for |z| <= 9, relative error 5e-8 before rounding and 3e-7 after it, so the cdf is within 2e-7 everywhere.
TRIREME_INLINE Normal normal(f32x16 z) {
  const f32x16 t = 1.0f / (1.0f + 0.3f * absolute(z));
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
