#include "backend/cpu/kernels/optimizer.h"

#include "backend/cpu/kernels/pointwise_chunks.h"

#if defined(__x86_64__)
  #include <immintrin.h>
#endif

namespace trireme::cpu::TRIREME_ISA {
namespace {

using f32x8 = float __attribute__((vector_size(32)));
using f64x8 = double __attribute__((vector_size(64)));

// In double, because the squares of large gradients overflow a float, and a sum of 10^8 of them would lose the small ones.
double sum_of_squares(const float* values, int64_t count) {
  constexpr int kVectors = 4;  // independent sums, to hide the latency of additions
  f64x8 totals[kVectors] = {};
  int64_t i = 0;
  for (; i + 8 * kVectors <= count; i += 8 * kVectors)
    for (int k = 0; k < kVectors; ++k) {
      f32x8 narrow;
      __builtin_memcpy(&narrow, values + i + 8 * k, sizeof narrow);
      const f64x8 wide = __builtin_convertvector(narrow, f64x8);
      totals[k] += wide * wide;
    }
  const f64x8 sums = (totals[0] + totals[1]) + (totals[2] + totals[3]);
  double total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  for (; i < count; ++i) total += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return total;
}

TRIREME_INLINE f32x16 square_root(f32x16 v) {
  float x[kLanes];
  store(x, v);
#if defined(__AVX512F__)
  // A full mask, because the plain form of this intrinsic makes gcc 12 warn of an uninitialised operand.
  _mm512_storeu_ps(x, _mm512_maskz_sqrt_ps(0xffff, _mm512_loadu_ps(x)));
#elif defined(__AVX__)
  for (int i = 0; i < kLanes; i += 8) _mm256_storeu_ps(x + i, _mm256_sqrt_ps(_mm256_loadu_ps(x + i)));
#elif defined(__SSE2__)
  for (int i = 0; i < kLanes; i += 4) _mm_storeu_ps(x + i, _mm_sqrt_ps(_mm_loadu_ps(x + i)));
#else
  for (int i = 0; i < kLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
#endif
  return load(x);
}

template <class M, class V, class T>
void adamw(const AdamWFactors& factors, const AdamWPiece& piece) {
  M* first = static_cast<M*>(piece.m);
  V* second = static_cast<V*>(piece.v);
  T* weights = static_cast<T*>(piece.weights);
  for_each_chunk(piece.count, [&](int64_t i, auto lanes) {
    const f32x16 gradient = load(piece.grads + i, lanes) * factors.clip;
    const f32x16 m = load(first + i, lanes) * factors.beta1 + gradient * factors.one_minus_beta1;
    const f32x16 v = load(second + i, lanes) * factors.beta2 + gradient * gradient * factors.one_minus_beta2;
    const f32x16 direction = m * factors.m_correction / (square_root(v) * factors.root_v_correction + factors.epsilon);
    const f32x16 master = load(piece.master + i, lanes);
    const f32x16 updated = master - (direction + master * piece.weight_decay) * factors.learning_rate;
    store(first + i, m, lanes);
    store(second + i, v, lanes);
    store(piece.master + i, updated, lanes);
    store(weights + i, updated, lanes);
  });
}

template <class M, class V>
constexpr PerDType<void (*)(const AdamWFactors&, const AdamWPiece&)> kAdamW = {adamw<M, V, float>, adamw<M, V, uint16_t>,
                                                                               adamw<M, V, f16>};

}  // namespace

const OptimizerKernels optimizer_kernels = {
    .sum_of_squares = sum_of_squares,
    .adamw = {{kAdamW<float, float>, kAdamW<float, uint16_t>}, {kAdamW<uint16_t, float>, kAdamW<uint16_t, uint16_t>}},
};

}  // namespace trireme::cpu::TRIREME_ISA
