#include "backend/cpu/kernels/loss.h"

#include "backend/cpu/kernels/pointwise_chunks.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// The logits of a block are read from memory once, for their maximum, and from the nearest cache again for the exponentials.
constexpr int64_t kBlock = 2048;

// e^x for x <= 0, within 2 ulp; 0 below -86, where a further factor would leave the normal numbers; NaN stays NaN. Without the
// other half of the range it needs a third fewer instructions than exp, and this loop is made of nothing else.
TRIREME_INLINE f32x16 exp_nonpositive(f32x16 x) {
  const f32x16 clamped = max(splat(-86.0f), x);  // in this order NaN passes
  const f32x16 magic = splat(12582912.0f);       // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const f32x16 shifted = clamped * 1.44269504f + magic;
  const f32x16 n = shifted - magic;
  f32x16 r = clamped - n * 0.693359375f;  // log 2 in two parts, the first exact in few bits
  r = r + n * 2.12194440e-4f;
  f32x16 p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  u32x16 bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + (127u << 23);  // the low bits of shifted are n: this is 2^n
  f32x16 power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return x < -86.0f ? splat(0) : p * power;
}

template <class T>
float block_max(const T* logits, int64_t count) {
  const f32x16 lowest = splat(-__builtin_inff());
  f32x16 highest[4] = {lowest, lowest, lowest, lowest};
  int64_t c = 0;
  for (; c + 4 * kLanes <= count; c += 4 * kLanes)
    for (int i = 0; i < 4; ++i) highest[i] = max(highest[i], load(logits + c + i * kLanes));
  for (; c + kLanes <= count; c += kLanes) highest[0] = max(highest[0], load(logits + c));
  float result = reduce_max(max(max(highest[0], highest[1]), max(highest[2], highest[3])));
  for (; c < count; ++c) {
    const float logit = load_part(logits + c, 1)[0];
    result = logit > result ? logit : result;
  }
  return result;
}

template <class T>
void stats(const LogitsRow& row, float* row_max, float* row_sum) {
  const T* logits = static_cast<const T*>(row.logits);
  float highest = -__builtin_inff();
  f32x16 total{};
  for (int64_t begin = 0; begin < row.vocabulary; begin += kBlock) {
    const int64_t count = row.vocabulary - begin < kBlock ? row.vocabulary - begin : kBlock;
    const float highest_here = block_max(logits + begin, count);
    if (highest_here > highest) {
      total *= exp_nonpositive(splat(highest - highest_here));
      highest = highest_here;
    }
    // Logits that are all minus infinity so far have exponentials of 0, not of infinity - infinity.
    const float shift = highest == -__builtin_inff() ? 0 : highest;
    f32x16 block_total{};
    for_each_chunk(count, [&](int64_t c, auto lanes) {
      block_total += only(exp_nonpositive(load(logits + begin + c, lanes) - shift), lanes);
    });
    total += block_total;
  }
  *row_max = highest;
  *row_sum = reduce_sum(total);
}

template <class T>
void grad(const LogitsRow& row, int64_t target, float row_max, float row_sum, float scale) {
  T* logits = static_cast<T*>(row.logits);
  const float factor = scale / row_sum;
  const float target_exponential = exp_nonpositive(load_part(logits + target, 1) - row_max)[0];
  for_each_chunk(row.vocabulary, [&](int64_t c, auto lanes) {
    store(logits + c, exp_nonpositive(load(logits + c, lanes) - row_max) * factor, lanes);
  });
  store_part(logits + target, splat((target_exponential / row_sum - 1) * scale), 1);
  for_each_chunk(row.vocabulary, row.width, [&](int64_t c, auto lanes) { store(logits + c, f32x16{}, lanes); });
}

}  // namespace

const LossKernels loss_kernels = {
    .stats = {stats<float>, stats<uint16_t>},
    .grad = {grad<float>, grad<uint16_t>},
};

}  // namespace trireme::cpu::TRIREME_ISA
