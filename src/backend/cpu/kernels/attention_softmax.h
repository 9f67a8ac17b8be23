// The rows of a block of scores: the online softmax of forward, and the probabilities and score gradients that backward
// recomputes from the log-sum-exp. Element is the type that the GEMMs read: f32, or bf16 bits.
#pragma once

#include "backend/cpu/kernels/attention_block.h"
#include "backend/cpu/kernels/philox_simd.h"

namespace trireme::cpu::TRIREME_ISA::attention {

constexpr float kMinusInfinity = -__builtin_inff();
constexpr i32x16 kLaneNumbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

TRIREME_INLINE float fold_max(f32x16 v) {
  v = max(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  v = max(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  v = max(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  v = max(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
  return v[0];
}

// The dropout draws of a block: element (r, c) uses those of query first_row + r and key first_key + c.
struct BlockDropout {
  const DropoutArguments& arguments;
  int64_t head = 0;
  int64_t first_row = 0;  // index over the batch, as in row_keys
  int64_t first_key = 0;
};

TRIREME_INLINE void draw_factors(const BlockDropout& dropout, int64_t row, int64_t columns, float* factors) {
  const DropoutArguments& a = dropout.arguments;
  const DropoutRow draws{.seed = a.seed,
                         .site = a.site + static_cast<uint32_t>(dropout.head),
                         .row_key = a.row_keys[dropout.first_row + row],
                         .threshold = a.threshold,
                         .keep_scale = a.scale};
  for (int64_t c = 0; c < columns; c += kDropoutBatch) {
    const DropoutFactors drop = dropout_factors(draws, dropout.first_key + c);
    for (int i = 0; i < 4; ++i) store(factors + c + i * kLanes, drop.of[i]);
  }
}

constexpr int64_t kMostColumns = 128;  // per block, for any engine

// Columns of a row that some tile of the GEMMs reads. Those that the row does not see must be zero.
template <class Engine>
TRIREME_INLINE int64_t columns_read(const ScoreBlock& block, int64_t row, int64_t stride) {
  return smaller(stride, padded(block.visible(row + Engine::kTileRows - 1), Engine::kTileColumns));
}

template <class Element>
TRIREME_INLINE void clear(Element* to, int64_t count) {
  __builtin_memset(to, 0, static_cast<size_t>(count) * sizeof(Element));
}

// What forward keeps per row between blocks of keys.
struct OnlineSoftmax {
  float* top = nullptr;  // [rows] the largest score so far, times scale
  float* sum = nullptr;  // [rows][16] partial sums of exp(score - top)
  float* out = nullptr;  // [rows][out_stride] sum of exp(score - top) v
  int64_t out_stride = 0;
};

TRIREME_INLINE void rescale(const OnlineSoftmax& state, int64_t row, float new_top) {
  const f32x16 factor = exp_without_overflow(splat(state.top[row] - new_top));
  float* sum = state.sum + row * kLanes;
  store(sum, load(sum) * factor);
  float* out = state.out + row * state.out_stride;
  for (int64_t c = 0; c < state.out_stride; c += kLanes) store(out + c, load(out + c) * factor);
  state.top[row] = new_top;
}

// probabilities = dropout(exp(scale * scores - top)). Also rescales the state to the new top. probabilities may alias scores.
template <class Engine, bool kDropout>
void softmax_rows(const ScoreBlock& block, float scale, const BlockDropout& dropout, const OnlineSoftmax& state,
                  const float* scores, int64_t stride, typename Engine::Element* probabilities) {
  static_assert(Engine::kForwardKeys <= kMostColumns && Engine::kForwardKeys % kDropoutBatch == 0);
  float factors[kMostColumns];
  for (int64_t row = 0; row < block.rows; ++row) {
    const float* s = scores + row * stride;
    typename Engine::Element* p = probabilities + row * stride;
    const int64_t visible = block.visible(row);
    const int64_t whole = visible / kLanes * kLanes;
    const i32x16 seen = kLaneNumbers < static_cast<int32_t>(visible - whole);

    f32x16 largest = splat(kMinusInfinity);
    for (int64_t c = 0; c < whole; c += kLanes) largest = max(load(s + c), largest);
    if (whole < visible) largest = max(seen ? load(s + whole) : splat(kMinusInfinity), largest);
    const float top = fold_max(largest) * scale;
    if (top > state.top[row]) rescale(state, row, top);
    // A row that has seen no key keeps -infinity; -infinity minus itself would be NaN.
    const float offset = state.top[row] == kMinusInfinity ? 0 : state.top[row];

    if constexpr (kDropout) draw_factors(dropout, row, visible, factors);
    f32x16 sum = load(state.sum + row * kLanes);
    for (int64_t c = 0; c < whole; c += kLanes) {
      f32x16 e = exp_without_overflow(load(s + c) * scale - offset);
      sum += e;
      if constexpr (kDropout) e *= load(factors + c);
      Engine::store_weights(p + c, e);
    }
    int64_t written = whole;
    if (whole < visible) {
      f32x16 e = exp_without_overflow(load(s + whole) * scale - offset);
      e = seen ? e : splat(0);
      sum += e;
      if constexpr (kDropout) e *= load(factors + whole);
      Engine::store_weights(p + whole, e);
      written += kLanes;
    }
    store(state.sum + row * kLanes, sum);
    const int64_t read = columns_read<Engine>(block, row, stride);
    if (written < read) clear(p + written, read - written);
  }
}

// probabilities = dropout(exp(scale * scores - lse));  d_scores = exp(scale * scores - lse) * (dropout(d_probabilities) - delta),
// where delta = d_out . out of the row. The results may alias scores and d_probabilities.
template <class Engine, bool kDropout>
void softmax_gradient_rows(const ScoreBlock& block, float scale, const BlockDropout& dropout, const float* lse,
                           const float* delta, const float* scores, const float* d_probabilities, int64_t stride,
                           typename Engine::Element* probabilities, typename Engine::Element* d_scores) {
  static_assert(Engine::kBackwardKeys <= kMostColumns && Engine::kBackwardKeys % kDropoutBatch == 0);
  float factors[kMostColumns];
  for (int64_t row = 0; row < block.rows; ++row) {
    const float* s = scores + row * stride;
    const float* dp = d_probabilities + row * stride;
    typename Engine::Element* p = probabilities + row * stride;
    typename Engine::Element* ds = d_scores + row * stride;
    // A row without a finite sum has no probabilities.
    const int64_t visible = lse[row] == kMinusInfinity ? 0 : block.visible(row);
    if constexpr (kDropout) draw_factors(dropout, row, visible, factors);
    for (int64_t c = 0; c < visible; c += kLanes) {
      const f32x16 e = exp_without_overflow(load(s + c) * scale - lse[row]);
      f32x16 kept = e, gradient = load(dp + c);
      if constexpr (kDropout) {
        const f32x16 factor = load(factors + c);
        kept *= factor;
        gradient *= factor;
      }
      gradient = e * (gradient - delta[row]);
      if (c + kLanes > visible) {
        const i32x16 seen = kLaneNumbers < static_cast<int32_t>(visible - c);
        kept = seen ? kept : splat(0);
        gradient = seen ? gradient : splat(0);
      }
      Engine::store_weights(p + c, kept);
      Engine::store_weights(ds + c, gradient);
    }
    const int64_t written = padded(visible, kLanes), read = columns_read<Engine>(block, row, stride);
    if (written < read) clear(p + written, read - written), clear(ds + written, read - written);
  }
  // Rows that only pad the last tile.
  for (int64_t row = block.rows; row < padded(block.rows, Engine::kTileDepth); ++row)
    clear(probabilities + row * stride, stride), clear(d_scores + row * stride, stride);
}

}  // namespace trireme::cpu::TRIREME_ISA::attention
