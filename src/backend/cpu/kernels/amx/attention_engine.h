// TileEngine: the AMX operations of attention_forward.h and attention_backward.h. Same members as VectorEngine in
// attention_vector.h.
#pragma once

#include "backend/cpu/kernels/amx/attention_pairs.h"
#include "backend/cpu/kernels/amx/attention_tiles.h"

namespace trireme::cpu::TRIREME_ISA::attention {

struct TileEngine {
  using Source = uint16_t;  // bf16 bits
  using Element = uint16_t;
  struct Session {
    Session() { configure_tiles(); }
    ~Session() { release_tiles(); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
  };

  static constexpr int64_t kForwardKeys = 128, kBackwardKeys = 128;
  static constexpr int64_t kTileRows = kTile, kTileColumns = kTile, kTileDepth = kTile;
  static constexpr bool kInPlace = false;
  static constexpr int64_t kWorkElements = kAttentionQueryBlock * kBackwardKeys;  // the pairs of add_key_gradient

  static int64_t padded_width(int64_t width) { return padded(width, kTile); }

  // A query block is packed as rows, the left operand of scores. For backward it is also packed transposed, the left operand of
  // key gradients.
  static int64_t query_elements(int64_t width) { return 2 * kAttentionQueryBlock * padded_width(width); }
  static void pack_queries_for_scores(const Source* from, int64_t from_stride, int64_t rows, int64_t width, Element* to) {
    pack_rows(from, from_stride, rows, kAttentionQueryBlock, width, to, padded_width(width));
  }
  static void pack_queries(const Source* from, int64_t from_stride, int64_t rows, int64_t width, Element* to) {
    pack_queries_for_scores(from, from_stride, rows, width, to);
    const int64_t stride = padded_width(width);
    transpose_block(to, kAttentionQueryBlock, stride, to + kAttentionQueryBlock * stride, kAttentionQueryBlock);
  }
  template <int64_t kKeys>
  static void pack_keys_for_scores(const Source* from, int64_t from_stride, int64_t rows, int64_t width, Element* to) {
    pack_column_pairs(from, from_stride, rows, padded(rows, kTile), width, padded_width(width), to, kKeys);
  }
  static void pack_keys_for_sums(const Source* from, int64_t from_stride, int64_t rows, int64_t width, Element* to) {
    pack_row_pairs(from, from_stride, rows, padded(rows, kTile), width, to, padded_width(width));
  }

  TRIREME_INLINE static void store_weights(Element* to, f32x16 v) {
#if defined(__AVX512BF16__)
    const __m256bh half = _mm512_cvtneps_pbh(reinterpret_cast<__m512>(v));
    __builtin_memcpy(to, &half, sizeof half);
#else
    store(to, v);
#endif
  }

  template <int64_t kKeys>
  static void scores(const ScoreBlock& block, int64_t width, const Element* queries, const Element* keys, float* scores) {
    stores_before_tiles();
    const int64_t stride = padded_width(width);
    for (int64_t row = 0; row < block.rows; row += kTile) {
      const int64_t columns = block.visible(smaller(row + kTile, block.rows) - 1);
      for (int64_t column = 0; column < columns; column += kTile)
        multiply_tiles({.depth = stride,
                        .a = queries + row * stride,
                        .a_stride = stride,
                        .b = pairs(keys) + column,
                        .b_stride = kKeys,
                        .c = scores + row * kKeys + column,
                        .c_stride = kKeys});
    }
  }

  template <int64_t kKeys>
  static void add_weighted_sums(const ScoreBlock& block, int64_t width, const Element* weights, const Element* keys,
                                float* sums) {
    stores_before_tiles();
    const int64_t stride = padded_width(width);
    for (int64_t row = 0; row < block.rows; row += kTile) {
      const int64_t depth = padded(block.visible(smaller(row + kTile, block.rows) - 1), kTile);
      if (depth == 0) continue;
      for (int64_t column = 0; column < stride; column += kTile)
        multiply_add_tiles({.depth = depth,
                            .a = weights + row * kKeys,
                            .a_stride = kKeys,
                            .b = pairs(keys) + column,
                            .b_stride = stride,
                            .c = sums + row * stride + column,
                            .c_stride = stride});
    }
  }

  // The gradient is kept transposed, [padded width][keys] += queries^T weights, so that the weights are the right operand.
  // Packing them into pairs only interleaves neighbouring rows, which is cheaper than a transpose.
  template <int64_t kKeys>
  static void add_key_gradient(const ScoreBlock& block, int64_t width, const Element* weights, const Element* queries,
                               float* gradient, Element* work) {
    const int64_t stride = padded_width(width), depth_end = padded(block.rows, kTile);
    pack_row_pairs(weights, kKeys, depth_end, depth_end, kKeys, work, kKeys);
    stores_before_tiles();
    const Element* transposed = queries + kAttentionQueryBlock * stride;
    for (int64_t key = 0; key < block.columns; key += kTile) {
      const int64_t first = block.first_row_that_sees(key) / kTile * kTile;
      if (first >= block.rows) break;
      for (int64_t row = 0; row < stride; row += kTile)
        multiply_add_tiles({.depth = depth_end - first,
                            .a = transposed + row * kAttentionQueryBlock + first,
                            .a_stride = kAttentionQueryBlock,
                            .b = pairs(work) + first / 2 * kKeys + key,
                            .b_stride = kKeys,
                            .c = gradient + row * kKeys + key,
                            .c_stride = kKeys});
    }
  }

  template <int64_t kKeys>
  static void store_key_gradient(const float* gradient, float factor, int64_t rows, int64_t width, Source* to,
                                 int64_t to_stride) {
    for (int64_t r = 0; r < rows; r += kLanes) {
      for (int64_t c = 0; c < width; c += kLanes) {
        f32x16 x[kLanes];
        for (int i = 0; i < kLanes; ++i) x[i] = load(gradient + (c + i) * kKeys + r) * factor;
        transpose(x);
        for (int i = 0; i < kLanes && r + i < rows; ++i) store_up_to(to + (r + i) * to_stride + c, x[i], width - c);
      }
    }
  }

 private:
  static const uint32_t* pairs(const Element* packed) { return reinterpret_cast<const uint32_t*>(packed); }
};

}  // namespace trireme::cpu::TRIREME_ISA::attention
