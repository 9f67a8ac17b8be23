// The GEMMs of attention in f32 vectors. Blocks are packed to f32 from any dtype. A GEMM is split into tiles of kTileRows rows
// and kTileVectors vectors of 16 columns that stay in registers over the whole depth.
#pragma once

#include "backend/cpu/kernels/attention_block.h"
#include "backend/cpu/kernels/attention_pack.h"

namespace trireme::cpu::TRIREME_ISA::attention {

// The accumulators of a tile fill all registers except those for one row of b and one element of a.
#if defined(__AVX512F__)
constexpr int kRegisterLanes = 16, kVectorTileRows = 6, kVectorTileVectors = 4;
#elif defined(__AVX__)
constexpr int kRegisterLanes = 8, kVectorTileRows = 6, kVectorTileVectors = 1;
#else
constexpr int kRegisterLanes = 4, kVectorTileRows = 3, kVectorTileVectors = 1;
#endif
using Register = float __attribute__((vector_size(kRegisterLanes * 4)));

enum class Into : uint8_t { replace, add };

// c = a b or c += a b. Element (r, k) of a is a[r * a_row + k * a_depth]; rows of b and c are b_stride and c_stride apart.
struct TileProduct {
  int64_t depth = 0;
  const float* a = nullptr;
  int64_t a_row = 0, a_depth = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  Into into = Into::replace;
};

template <int kRows, int kVectors>
[[gnu::noinline]] void multiply_tile(const TileProduct& t) {
  constexpr int kRegisters = kVectors * kLanes / kRegisterLanes;
  Register sum[kRows][kRegisters];
  if (t.into == Into::add) {
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kRegisters; ++v)
        __builtin_memcpy(&sum[r][v], t.c + r * t.c_stride + v * kRegisterLanes, sizeof(Register));
  } else {
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kRegisters; ++v) sum[r][v] = Register{};
  }
  const float* a = t.a;
  const float* b = t.b;
  const int64_t a_row = t.a_row, a_depth = t.a_depth, b_stride = t.b_stride;
  for (int64_t k = 0; k < t.depth; ++k, a += a_depth, b += b_stride) {
    Register right[kRegisters];
    for (int v = 0; v < kRegisters; ++v) __builtin_memcpy(&right[v], b + v * kRegisterLanes, sizeof(Register));
    for (int r = 0; r < kRows; ++r) {
      const float left = a[r * a_row];
      for (int v = 0; v < kRegisters; ++v) sum[r][v] += left * right[v];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kRegisters; ++v)
      __builtin_memcpy(t.c + r * t.c_stride + v * kRegisterLanes, &sum[r][v], sizeof(Register));
}

// Calls the tile of the requested size, searching down from the largest, which is the most common.
template <int kRows = kVectorTileRows, int kVectors = kVectorTileVectors>
TRIREME_INLINE void multiply(int64_t rows, int64_t vectors, const TileProduct& tile) {
  if constexpr (kRows > 1)
    if (rows < kRows) return multiply<kRows - 1, kVectors>(rows, vectors, tile);
  if constexpr (kVectors > 1)
    if (vectors < kVectors) return multiply<kRows, kVectors - 1>(rows, vectors, tile);
  multiply_tile<kRows, kVectors>(tile);
}

// The GEMMs as attention_forward.h and attention_backward.h call them; TileEngine in amx/ has the same members.
template <class SourceType>
struct VectorEngine {
  using Source = SourceType;
  using Element = float;  // of packed blocks
  struct Session {};      // per-thread state while a kernel runs

  static constexpr int64_t kForwardKeys = 128, kBackwardKeys = 64;  // columns per block
  static constexpr int64_t kTileRows = kVectorTileRows, kTileColumns = kLanes, kTileDepth = 1;
  static constexpr bool kInPlace = true;  // probabilities overwrite scores
  static constexpr int64_t kWorkElements = 0;
  static constexpr int64_t kPanel = kVectorTileVectors * kLanes;

  static int64_t padded_width(int64_t width) { return padded(width, kLanes); }
  static int64_t query_elements(int64_t width) { return kAttentionQueryBlock * padded_width(width); }

  // Rows unchanged: left operand of scores, right operand of key gradients.
  static void pack_queries(const Source* from, int64_t from_stride, int64_t rows, int64_t width, Element* to) {
    pack_rows(from, from_stride, rows, width, to, padded_width(width));
  }
  static void pack_queries_for_scores(const Source* from, int64_t from_stride, int64_t rows, int64_t width, Element* to) {
    pack_queries(from, from_stride, rows, width, to);
  }
  // [D][keys]: right operand of scores.
  template <int64_t kKeys>
  static void pack_keys_for_scores(const Source* from, int64_t from_stride, int64_t rows, int64_t width, Element* to) {
    pack_transposed(from, from_stride, rows, width, to, kKeys);
  }
  // [keys][D]: right operand of weighted sums.
  static void pack_keys_for_sums(const Source* from, int64_t from_stride, int64_t rows, int64_t width, Element* to) {
    pack_rows(from, from_stride, rows, width, to, padded_width(width));
  }

  // Probabilities and score gradients, the left operands of the next GEMMs.
  TRIREME_INLINE static void store_weights(Element* to, f32x16 v) { store(to, v); }

  // scores[i][j] = queries[i] . keys[j].
  template <int64_t kKeys>
  static void scores(const ScoreBlock& block, int64_t width, const Element* queries, const Element* keys, float* scores) {
    const int64_t stride = padded_width(width);
    for (int64_t column = 0; column < block.columns; column += kPanel) {
      for (int64_t row = 0; row < block.rows; row += kTileRows) {
        const int64_t rows = smaller(kTileRows, block.rows - row);
        const int64_t columns = block.visible(row + rows - 1) - column;
        if (columns <= 0) continue;
        multiply(rows, blocks_of(columns, kLanes),
                 {.depth = width,
                  .a = queries + row * stride,
                  .a_row = stride,
                  .a_depth = 1,
                  .b = keys + column,
                  .b_stride = kKeys,
                  .c = scores + row * kKeys + column,
                  .c_stride = kKeys,
                  .into = Into::replace});
      }
    }
  }

  // sums[i] += sum over j of weights[i][j] keys[j].
  template <int64_t kKeys>
  static void add_weighted_sums(const ScoreBlock& block, int64_t width, const Element* weights, const Element* keys,
                                float* sums) {
    const int64_t stride = padded_width(width);
    for (int64_t column = 0; column < stride; column += kPanel) {
      for (int64_t row = 0; row < block.rows; row += kTileRows) {
        const int64_t rows = smaller(kTileRows, block.rows - row);
        const int64_t depth = block.visible(row + rows - 1);
        if (depth == 0) continue;
        multiply(rows, (stride - column) / kLanes,
                 {.depth = depth,
                  .a = weights + row * kKeys,
                  .a_row = kKeys,
                  .a_depth = 1,
                  .b = keys + column,
                  .b_stride = stride,
                  .c = sums + row * stride + column,
                  .c_stride = stride,
                  .into = Into::add});
      }
    }
  }

  // gradient[j] += sum over i of weights[i][j] queries[i].    gradient: [keys][padded width].
  template <int64_t kKeys>
  static void add_key_gradient(const ScoreBlock& block, int64_t width, const Element* weights, const Element* queries,
                               float* gradient, Element*) {
    const int64_t stride = padded_width(width);
    for (int64_t column = 0; column < stride; column += kPanel) {
      for (int64_t key = 0; key < block.columns; key += kTileRows) {
        const int64_t first = block.first_row_that_sees(key);
        if (first >= block.rows) break;
        multiply(smaller(kTileRows, block.columns - key), (stride - column) / kLanes,
                 {.depth = block.rows - first,
                  .a = weights + first * kKeys + key,
                  .a_row = 1,
                  .a_depth = kKeys,
                  .b = queries + first * stride + column,
                  .b_stride = stride,
                  .c = gradient + key * stride + column,
                  .c_stride = stride,
                  .into = Into::add});
      }
    }
  }

  template <int64_t kKeys>
  static void store_key_gradient(const float* gradient, float factor, int64_t rows, int64_t width, Source* to,
                                 int64_t to_stride) {
    for (int64_t r = 0; r < rows; ++r) unpack_row(gradient + r * padded_width(width), factor, width, to + r * to_stride);
  }
};

}  // namespace trireme::cpu::TRIREME_ISA::attention
