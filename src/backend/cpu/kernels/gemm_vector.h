// The vectors of the GEMM kernels are exactly one register wide, because tiles of sums must stay in registers and the compiler
// keeps wider vectors in memory. All other kernels use the 16 lanes of simd.h on every instruction set.
#pragma once

#include "backend/cpu/kernels/simd.h"

namespace trireme::cpu::TRIREME_ISA {

#if defined(__AVX512F__)
constexpr int kRegisterLanes = 16;
#elif defined(__AVX2__)
constexpr int kRegisterLanes = 8;
#else
constexpr int kRegisterLanes = 4;
#endif

using Register = float __attribute__((vector_size(4 * kRegisterLanes)));

// x - 0 is x for every x, so it compiles to the broadcast alone.
TRIREME_INLINE Register broadcast(float x) { return x - Register{}; }

TRIREME_INLINE Register load_register(const float* from) {
  Register v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
TRIREME_INLINE Register load_register(const uint16_t* from) {
  using Half = uint16_t __attribute__((vector_size(2 * kRegisterLanes)));
  using Bits = uint32_t __attribute__((vector_size(4 * kRegisterLanes)));
  Half half;
  __builtin_memcpy(&half, from, sizeof half);
  const Bits bits = __builtin_convertvector(half, Bits) << 16;
  Register v;
  __builtin_memcpy(&v, &bits, sizeof v);
  return v;
}

TRIREME_INLINE Register load_register(const f16* from) {
#if defined(__AVX512F__)
  __m256i half;
  __builtin_memcpy(&half, from, sizeof half);
  return reinterpret_cast<Register>(_mm512_cvtph_ps(half));
#elif defined(__F16C__)
  __m128i half;
  __builtin_memcpy(&half, from, sizeof half);
  return reinterpret_cast<Register>(_mm256_cvtph_ps(half));
#else
  u16x16 half{};
  __builtin_memcpy(&half, from, sizeof(f16) * kRegisterLanes);
  const f32x16 wide = widen_f16(half);
  Register v;
  __builtin_memcpy(&v, &wide, sizeof v);
  return v;
#endif
}

TRIREME_INLINE void store_register(float* to, Register v) { __builtin_memcpy(to, &v, sizeof v); }

TRIREME_INLINE float widen_element(float x) { return x; }
TRIREME_INLINE float widen_element(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float x;
  __builtin_memcpy(&x, &wide, sizeof x);
  return x;
}

TRIREME_INLINE float widen_element(f16 x) { return load_part(&x, 1)[0]; }

// Lanes a0 b0 a1 b1 ... of the lower or upper halves.
template <class V>
TRIREME_INLINE V interleave_lower(V a, V b) {
  constexpr int kCount = sizeof(V) / sizeof(a[0]);
  if constexpr (kCount == 16)
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  else if constexpr (kCount == 8)
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  else
    return __builtin_shufflevector(a, b, 0, 4, 1, 5);
}
template <class V>
TRIREME_INLINE V interleave_upper(V a, V b) {
  constexpr int kCount = sizeof(V) / sizeof(a[0]);
  if constexpr (kCount == 16)
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  else if constexpr (kCount == 8)
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  else
    return __builtin_shufflevector(a, b, 2, 6, 3, 7);
}

// Transposes the square matrix whose rows are v, by interleaving its two halves log2(lanes) times.
template <class V, int Count>
TRIREME_INLINE void transpose(V (&v)[Count]) {
  static_assert(Count == sizeof(V) / sizeof(v[0][0]));
#pragma GCC unroll 4
  for (int done = 1; done < Count; done *= 2) {
    V next[Count];
#pragma GCC unroll 8
    for (int i = 0; i < Count / 2; ++i) {
      next[2 * i] = interleave_lower(v[i], v[i + Count / 2]);
      next[2 * i + 1] = interleave_upper(v[i], v[i + Count / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < Count; ++i) v[i] = next[i];
  }
}

}  // namespace trireme::cpu::TRIREME_ISA
