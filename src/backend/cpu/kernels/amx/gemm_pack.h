// Packs bf16 panels into tiles. A tile covers 16 rows of the operand and 32 k, that is 16 pairs of k: a square of 16 x 16 pairs
// of 4 bytes. A tile of A is [row][pair], a tile of B is [pair][row]. A tile is loaded in the order of memory and transposed if
// the other order is needed.
#pragma once

#include "backend/cpu/kernels/gemm.h"
#include "backend/cpu/kernels/gemm_vector.h"

namespace trireme::cpu::TRIREME_ISA {

enum class Operand : uint8_t { a, b };

constexpr int kPanelWidth = 32;  // two tiles
constexpr int kTileK = 32;
constexpr int kTileWidth = 16;
constexpr int kTileRowBytes = 64;
constexpr int kTileBytes = kTileWidth * kTileRowBytes;
constexpr int kStepBytes = 2 * kTileBytes;  // a panel's tiles of one step of 32 k
constexpr int kPanelKBytes = kPanelWidth * 2;

using Square = u32x16[kTileWidth];

TRIREME_INLINE u32x16 load_pairs(const uint16_t* from) {
  u32x16 pairs;
  __builtin_memcpy(&pairs, from, sizeof pairs);
  return pairs;
}
TRIREME_INLINE u32x16 join_pairs(const uint16_t* even, const uint16_t* odd) {
  u16x16 lower, upper;
  __builtin_memcpy(&lower, even, sizeof lower);
  __builtin_memcpy(&upper, odd, sizeof upper);
  return __builtin_convertvector(lower, u32x16) | __builtin_convertvector(upper, u32x16) << 16;
}

TRIREME_INLINE f32x16 floats_of(u32x16 bits) {
  f32x16 values;
  __builtin_memcpy(&values, &bits, sizeof values);
  return values;
}

// to[row] += the sum of both elements of all pairs of a square [pair][row], for `count` rows.
TRIREME_INLINE void add_rows(const Square& square, float* to, int64_t count) {
  constexpr int kChains = 4;  // enough independent additions to hide their latency
  f32x16 sums[kChains] = {};
#pragma GCC unroll 16
  for (int i = 0; i < kTileWidth; ++i) sums[i % kChains] += floats_of(square[i] << 16) + floats_of(square[i] & 0xffff0000u);
  const f32x16 sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  if (count >= kTileWidth)
    store(to, load(to) + sum);
  else
    store_part(to, load_part(to, count) + sum, count);
}

// Rows that are far apart, which the hardware prefetcher does not predict.
TRIREME_INLINE void prefetch_rows(const uint16_t* from, int64_t stride) {
  for (int i = 0; i < kTileK; ++i) __builtin_prefetch(from + i * stride, 0, 2);
}

// [row][pair] for k_contiguous, [pair][row] for width_contiguous; zero beyond `width` rows and `k`.
template <Layout layout>
TRIREME_INLINE void load_square(const uint16_t* from, int64_t stride, int64_t width, int64_t k, Square& square) {
  constexpr bool along_k = layout == Layout::k_contiguous;
  if (width >= kTileWidth && k >= kTileK) {
#pragma GCC unroll 16
    for (int i = 0; i < kTileWidth; ++i)
      square[i] = along_k ? load_pairs(from + i * stride) : join_pairs(from + 2 * i * stride, from + (2 * i + 1) * stride);
    return;
  }
  uint16_t cells[kTileWidth * kTileK] = {};
  for (int64_t w = 0; w < width && w < kTileWidth; ++w)
    for (int64_t i = 0; i < k && i < kTileK; ++i) {
      if (along_k)
        cells[w * kTileK + i] = from[w * stride + i];
      else
        cells[i / 2 * 2 * kTileWidth + 2 * w + i % 2] = from[i * stride + w];
    }
  for (int i = 0; i < kTileWidth; ++i) square[i] = load_pairs(cells + 2 * kTileWidth * i);
}

template <Operand operand, Layout layout>
void pack_tiles(const void* source, int64_t stride, int64_t width, int64_t k, void* packed, [[maybe_unused]] float* row_sums) {
  constexpr bool along_k = layout == Layout::k_contiguous;
  const uint16_t* from = static_cast<const uint16_t*>(source);
  uint8_t* to = static_cast<uint8_t*>(packed);
  const int64_t steps = (k + kTileK - 1) / kTileK, tiles = (width + kPanelWidth - 1) / kPanelWidth * 2;
  const auto pack_tile = [&](int64_t tile, int64_t step) {
    const int64_t w = tile * kTileWidth, i = step * kTileK;
    Square square;
    load_square<layout>(from + (along_k ? w * stride + i : i * stride + w), stride, width - w, k - i, square);
    if constexpr (!along_k)
      if (tile % 2 == 0) prefetch_rows(from + (i + kTileK) * stride + w, stride);  // two tiles share their lines
    if constexpr (operand == Operand::a && !along_k)
      if (row_sums != nullptr && w < width) add_rows(square, row_sums + w, width - w);
    if constexpr (along_k == (operand == Operand::b)) transpose(square);
    __builtin_memcpy(to + (tile / 2 * steps + step) * kStepBytes + tile % 2 * kTileBytes, square, kTileBytes);
  };
  // The loop order follows the contiguous dimension of memory.
  if constexpr (along_k) {
    for (int64_t tile = 0; tile < tiles; ++tile)
      for (int64_t step = 0; step < steps; ++step) pack_tile(tile, step);
  } else {
    for (int64_t step = 0; step < steps; ++step)
      for (int64_t tile = 0; tile < tiles; ++tile) pack_tile(tile, step);
  }
}

}  // namespace trireme::cpu::TRIREME_ISA
