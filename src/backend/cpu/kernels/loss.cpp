#include "backend/cpu/kernels/loss.h"

#include "backend/cpu/kernels/pointwise_chunks.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// The logits of a block are read from memory once, for their maximum, and then from L1 for the exponentials.
constexpr int64_t kBlock = 2048;

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
      total *= exp_without_overflow(splat(highest - highest_here));
      highest = highest_here;
    }
    // If all logits so far are minus infinity, their exponentials are 0; infinity - infinity would be NaN.
    const float shift = highest == -__builtin_inff() ? 0 : highest;
    f32x16 block_total{};
    for_each_chunk(count, [&](int64_t c, auto lanes) {
      block_total += only(exp_without_overflow(load(logits + begin + c, lanes) - shift), lanes);
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
  const float target_exponential = target < 0 ? 0 : exp_without_overflow(load_part(logits + target, 1) - row_max)[0];
  for_each_chunk(row.vocabulary, [&](int64_t c, auto lanes) {
    store(logits + c, exp_without_overflow(load(logits + c, lanes) - row_max) * factor, lanes);
  });
  if (target >= 0) store_part(logits + target, splat((target_exponential / row_sum - 1) * scale), 1);
  for_each_chunk(row.vocabulary, row.width, [&](int64_t c, auto lanes) { store(logits + c, f32x16{}, lanes); });
}

}  // namespace

const LossKernels loss_kernels = {
    .stats = {stats<float>, stats<uint16_t>, stats<f16>},
    .grad = {grad<float>, grad<uint16_t>, grad<f16>},
};

}  // namespace trireme::cpu::TRIREME_ISA
