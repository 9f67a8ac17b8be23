// Vectors of 16 floats in the compiler's vector extensions: one zmm register with AVX-512, two ymm with AVX2, four xmm without.
// The same source gives the same order of additions on every instruction set.
//
// Files under kernels/ are compiled for wider instruction sets than the rest of the program. So everything here is always inlined
// and in a namespace per instruction set, and those files include no library header that has inline functions. Otherwise the
// linker might pick a copy that an older CPU cannot run.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX512F__) || defined(__F16C__)
  #include <immintrin.h>
#endif

#define TRIREME_INLINE [[gnu::always_inline]] inline

namespace trireme::cpu::TRIREME_ISA {

using f32x16 = float __attribute__((vector_size(64)));
using i32x16 = int32_t __attribute__((vector_size(64)));
using u32x16 = uint32_t __attribute__((vector_size(64)));
using u16x16 = uint16_t __attribute__((vector_size(32)));

constexpr int kLanes = 16;

// x - 0 is x for every x, so it compiles to the broadcast alone.
TRIREME_INLINE f32x16 splat(float x) { return x - f32x16{}; }

// bf16 is passed as its bits. f16 is a type of its own.
struct f16 {
  uint16_t bits;
};

TRIREME_INLINE f32x16 load(const float* from) {
  f32x16 v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
TRIREME_INLINE f32x16 widen(u16x16 half) {
  const u32x16 bits = __builtin_convertvector(half, u32x16) << 16;
  f32x16 v;
  __builtin_memcpy(&v, &bits, sizeof v);
  return v;
}
TRIREME_INLINE f32x16 load(const uint16_t* from) {
  u16x16 half;
  __builtin_memcpy(&half, from, sizeof half);
  return widen(half);
}

// Vectors of IEEE half precision, as its bits.
#if defined(__AVX512F__)
TRIREME_INLINE f32x16 widen_f16(u16x16 half) {
  return reinterpret_cast<f32x16>(_mm512_cvtph_ps(reinterpret_cast<__m256i>(half)));
}
TRIREME_INLINE u16x16 to_f16_bits(f32x16 v) {
  return reinterpret_cast<u16x16>(_mm512_cvtps_ph(reinterpret_cast<__m512>(v), _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__F16C__)
TRIREME_INLINE f32x16 widen_f16(u16x16 half) {
  __m128i parts[2];
  __builtin_memcpy(parts, &half, sizeof parts);
  const __m256 wide[2] = {_mm256_cvtph_ps(parts[0]), _mm256_cvtph_ps(parts[1])};
  f32x16 v;
  __builtin_memcpy(&v, wide, sizeof v);
  return v;
}
TRIREME_INLINE u16x16 to_f16_bits(f32x16 v) {
  __m256 wide[2];
  __builtin_memcpy(wide, &v, sizeof wide);
  const __m128i parts[2] = {_mm256_cvtps_ph(wide[0], _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(wide[1], _MM_FROUND_TO_NEAREST_INT)};
  u16x16 half;
  __builtin_memcpy(&half, parts, sizeof half);
  return half;
}
#else
TRIREME_INLINE f32x16 as_floats(u32x16 bits) {
  f32x16 v;
  __builtin_memcpy(&v, &bits, sizeof v);
  return v;
}
TRIREME_INLINE u32x16 as_bits(f32x16 v) {
  u32x16 bits;
  __builtin_memcpy(&bits, &v, sizeof bits);
  return bits;
}
// The steps of to_float(f16) and to_f16 in tensor/dtype.h.
TRIREME_INLINE f32x16 widen_f16(u16x16 half) {
  const u32x16 wide = __builtin_convertvector(half, u32x16);
  const u32x16 bits = ((wide & 0x7fff) << 13) + (112u << 23), exponent = wide & 0x7c00;
  const u32x16 special = bits + (112u << 23);
  const u32x16 denormal = as_bits(as_floats(bits + (1u << 23)) - 0x1p-14f);
  const u32x16 magnitude = exponent == 0x7c00 ? special : exponent == 0 ? denormal : bits;
  return as_floats(magnitude | (wide & 0x8000) << 16);
}
TRIREME_INLINE u16x16 to_f16_bits(f32x16 v) {
  const u32x16 signed_bits = as_bits(v), bits = signed_bits & 0x7fffffff;
  const u32x16 normal = (bits - (112u << 23) + 0xfff + ((bits >> 13) & 1)) >> 13;
  const u32x16 denormal = as_bits(as_floats(bits) + 0.5f) - (126u << 23);
  const u32x16 infinity = u32x16{} + 0x7c00, nan = u32x16{} + 0x7e00;
  u32x16 half = bits < (113u << 23) ? denormal : normal;
  half = bits >= (143u << 23) ? infinity : half;
  half = bits > (255u << 23) ? nan : half;
  return __builtin_convertvector(half | ((signed_bits >> 16) & 0x8000), u16x16);
}
#endif
TRIREME_INLINE f32x16 load(const f16* from) {
  u16x16 half;
  __builtin_memcpy(&half, from, sizeof half);
  return widen_f16(half);
}

TRIREME_INLINE void store(float* to, f32x16 v) { __builtin_memcpy(to, &v, sizeof v); }

// Rounds to nearest, ties to even; NaN stays NaN. The instruction treats numbers below 2^-126 as zero.
TRIREME_INLINE u16x16 to_bf16_bits(f32x16 v) {
#if defined(__AVX512BF16__)
  const __m256bh half = _mm512_cvtneps_pbh(reinterpret_cast<__m512>(v));
  u16x16 result;
  __builtin_memcpy(&result, &half, sizeof result);
  return result;
#else
  u32x16 bits;
  __builtin_memcpy(&bits, &v, sizeof bits);
  const u32x16 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const u32x16 quiet = (bits >> 16) | 0x40;
  return __builtin_convertvector(v == v ? rounded : quiet, u16x16);
#endif
}
TRIREME_INLINE void store(uint16_t* to, f32x16 v) {
  const u16x16 half = to_bf16_bits(v);
  __builtin_memcpy(to, &half, sizeof half);
}

TRIREME_INLINE void store(f16* to, f32x16 v) {
  const u16x16 half = to_f16_bits(v);
  __builtin_memcpy(to, &half, sizeof half);
}

// Stores 32 elements that will not be read soon, past the caches if the processor can. `to` must be aligned to a cache line.
TRIREME_INLINE void stream_line(float* to, f32x16 lower, f32x16 upper) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, reinterpret_cast<__m512>(lower));
  _mm512_stream_ps(to + kLanes, reinterpret_cast<__m512>(upper));
#else
  store(to, lower), store(to + kLanes, upper);
#endif
}
TRIREME_INLINE void stream_line(uint16_t* to, f32x16 lower, f32x16 upper) {
#if defined(__AVX512F__)
  const u16x16 halves[2] = {to_bf16_bits(lower), to_bf16_bits(upper)};
  __m512i line;
  __builtin_memcpy(&line, halves, sizeof line);
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line);
#else
  store(to, lower), store(to + kLanes, upper);
#endif
}
TRIREME_INLINE void stream_line(f16* to, f32x16 lower, f32x16 upper) { store(to, lower), store(to + kLanes, upper); }
// Orders streamed stores before this thread's later stores.
TRIREME_INLINE void end_stream() {
#if defined(__AVX512F__)
  _mm_sfence();
#endif
}

// The value that a later load from memory of that type would give.
TRIREME_INLINE f32x16 rounded_to(const float*, f32x16 v) { return v; }
TRIREME_INLINE f32x16 rounded_to(const uint16_t*, f32x16 v) { return widen(to_bf16_bits(v)); }

TRIREME_INLINE f32x16 rounded_to(const f16*, f32x16 v) { return widen_f16(to_f16_bits(v)); }

// The first `count` < 16 elements; the others read as zero and are not written.
template <class T>
TRIREME_INLINE f32x16 load_part(const T* from, int64_t count) {
  T buffer[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) buffer[i] = from[i];
  return load(buffer);
}
template <class T>
TRIREME_INLINE void store_part(T* to, f32x16 v, int64_t count) {
  T buffer[kLanes];
  store(buffer, v);
  for (int64_t i = 0; i < count; ++i) to[i] = buffer[i];
}

TRIREME_INLINE f32x16 max(f32x16 a, f32x16 b) { return a > b ? a : b; }
TRIREME_INLINE f32x16 min(f32x16 a, f32x16 b) { return a < b ? a : b; }

// Pairwise, always in the same order.
TRIREME_INLINE float reduce_sum(f32x16 v) {
  float x[kLanes];
  store(x, v);
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) x[i] += x[i + width];
  return x[0];
}
TRIREME_INLINE float reduce_max(f32x16 v) {
  float x[kLanes];
  store(x, v);
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) x[i] = x[i] > x[i + width] ? x[i] : x[i + width];
  return x[0];
}

// The polynomial of e^r for |r| <= ln 2 / 2.
TRIREME_INLINE f32x16 exp_of_remainder(f32x16 r) {
  f32x16 p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return p * (r * r) + (r + 1.0f);
}

// e^x within 2 ulp; 0 below -87.3, infinity above 88.8; NaN stays NaN. Results are never denormal, which would be slow.
#if defined(__AVX512F__)
TRIREME_INLINE f32x16 exp(f32x16 x) {
  // These two return their second operand where one is NaN.
  const __m512 low = _mm512_max_ps(_mm512_set1_ps(-87.5f), reinterpret_cast<__m512>(x));
  const __m512 clamped = _mm512_min_ps(_mm512_set1_ps(89.0f), low);
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(clamped, _mm512_set1_ps(1.44269504f)), 0);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), clamped);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(2.12194440e-4f), r);
  const f32x16 p = exp_of_remainder(reinterpret_cast<f32x16>(r));
  const __mmask16 normal = _mm512_cmp_ps_mask(reinterpret_cast<__m512>(x), _mm512_set1_ps(-87.33655f), _CMP_NLT_UQ);
  return reinterpret_cast<f32x16>(_mm512_maskz_scalef_ps(normal, reinterpret_cast<__m512>(p), n));
}
#else
TRIREME_INLINE f32x16 exp(f32x16 x) {
  const f32x16 clamped = min(max(x, splat(-87.5f)), splat(88.75f));
  const f32x16 magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const f32x16 shifted = clamped * 1.44269504f + magic;
  const f32x16 n = shifted - magic;
  f32x16 r = clamped - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  const f32x16 p = exp_of_remainder(r);
  i32x16 bits = __builtin_convertvector(n, i32x16);
  const i32x16 half = bits >> 1;  // 2^n in two factors, so that n = 128 and n = -127 do not overflow the exponent
  const i32x16 first = (half + 127) << 23, second = (bits - half + 127) << 23;
  f32x16 scale1, scale2;
  __builtin_memcpy(&scale1, &first, sizeof scale1);
  __builtin_memcpy(&scale2, &second, sizeof scale2);
  f32x16 result = p * scale1 * scale2;
  result = x < -87.33655f ? splat(0) : result;
  result = x > 88.722839f ? splat(__builtin_inff()) : result;
  return x == x ? result : x;
}
#endif

// e^x within 2 ulp for x up to 88; 0 below -87; NaN stays NaN. It takes fewer instructions than exp. The softmax uses it, because
// a value minus the maximum, or minus the log-sum-exp, cannot overflow.
TRIREME_INLINE f32x16 exp_without_overflow(f32x16 x) {
  const f32x16 magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const f32x16 shifted = x * 1.44269504f + magic;
  const f32x16 n = shifted - magic;
  f32x16 r = x - n * 0.693359375f;  // log 2 in two parts, the first exact in few bits
  r = r + n * 2.12194440e-4f;
  u32x16 bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + (127u << 23);  // the low bits of shifted are n: this is 2^n
  f32x16 power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return x < -87.0f ? splat(0) : exp_of_remainder(r) * power;
}

// 1 / x within 1 ulp, for finite x other than zero.
TRIREME_INLINE f32x16 reciprocal(f32x16 x) {
#if defined(__AVX512F__)
  // 14 bits and one Newton step.
  const f32x16 rough = reinterpret_cast<f32x16>(_mm512_rcp14_ps(reinterpret_cast<__m512>(x)));
  return rough * (2.0f - x * rough);
#else
  return 1.0f / x;
#endif
}

}  // namespace trireme::cpu::TRIREME_ISA
