// Packs bf16 blocks for the tiles: rows padded with zeros, pairs of rows, transposed pairs of columns.
#pragma once

#include "backend/cpu/kernels/attention_pack.h"

namespace trireme::cpu::TRIREME_ISA::attention {

TRIREME_INLINE u32x16 bits_of(f32x16 v) {
  u32x16 bits;
  __builtin_memcpy(&bits, &v, sizeof bits);
  return bits;
}

// 16 pairs of neighbouring elements, as raw bits; zero from element `count` on.
TRIREME_INLINE f32x16 load_pairs(const uint16_t* from, int64_t count) {
  f32x16 v = splat(0);
  if (count >= 2 * kLanes)
    __builtin_memcpy(&v, from, sizeof v);
  else if (count > 0)
    __builtin_memcpy(&v, from, static_cast<size_t>(count) * 2);
  return v;
}

// 16 elements, each in the low half of a lane; zero from element `count` on.
TRIREME_INLINE u32x16 load_low_halves(const uint16_t* from, int64_t count) {
  u16x16 v = {};
  if (count >= kLanes)
    __builtin_memcpy(&v, from, sizeof v);
  else if (count > 0)
    __builtin_memcpy(&v, from, static_cast<size_t>(count) * 2);
  return __builtin_convertvector(v, u32x16);
}

// to[r][0 .. stride) = from[r][0 .. width), then zeros; rows up to `padded_rows` are zero.
inline void pack_rows(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t padded_rows, int64_t width, uint16_t* to,
                      int64_t stride) {
  for (int64_t r = 0; r < padded_rows; ++r) {
    for (int64_t c = 0; c < stride; c += 2 * kLanes) {
      const f32x16 v = r < rows ? load_pairs(from + r * from_stride + c, width - c) : splat(0);
      __builtin_memcpy(to + r * stride + c, &v, sizeof v);
    }
  }
}

// to[r/2][c] = (from[r][c], from[r+1][c]): a right operand whose depth runs over rows.
inline void pack_row_pairs(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t padded_rows, int64_t width,
                           uint16_t* to, int64_t stride) {
  for (int64_t r = 0; r < padded_rows; r += 2) {
    for (int64_t c = 0; c < stride; c += kLanes) {
      const u32x16 low = load_low_halves(from + r * from_stride + c, r < rows ? width - c : 0);
      const u32x16 high = load_low_halves(from + (r + 1) * from_stride + c, r + 1 < rows ? width - c : 0);
      const u32x16 pairs = low | (high << 16);
      __builtin_memcpy(to + r * stride + 2 * c, &pairs, sizeof pairs);
    }
  }
}

// to[c/2][r] = (from[r][c], from[r][c+1]): a right operand whose depth runs over columns and whose columns are rows here.
inline void pack_column_pairs(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t padded_rows, int64_t width,
                              int64_t padded_width, uint16_t* to, int64_t stride) {
  for (int64_t r = 0; r < padded_rows; r += kLanes) {
    for (int64_t c = 0; c < padded_width; c += 2 * kLanes) {
      f32x16 x[kLanes];
      for (int i = 0; i < kLanes; ++i) x[i] = load_pairs(from + (r + i) * from_stride + c, r + i < rows ? width - c : 0);
      transpose(x);
      for (int i = 0; i < kLanes; ++i) __builtin_memcpy(to + (c + 2 * i) * stride + 2 * r, &x[i], sizeof x[i]);
    }
  }
}

// to[c][r] = from[r][c] of a packed block: rows a multiple of 16, width a multiple of 32.
inline void transpose_block(const uint16_t* from, int64_t rows, int64_t width, uint16_t* to, int64_t stride) {
  for (int64_t r = 0; r < rows; r += kLanes) {
    for (int64_t c = 0; c < width; c += 2 * kLanes) {
      f32x16 x[kLanes];
      for (int i = 0; i < kLanes; ++i) x[i] = load_pairs(from + (r + i) * width + c, 2 * kLanes);
      transpose(x);
      for (int i = 0; i < kLanes; ++i) {
        const u16x16 even = __builtin_convertvector(bits_of(x[i]) & 0xffff, u16x16);
        const u16x16 odd = __builtin_convertvector(bits_of(x[i]) >> 16, u16x16);
        __builtin_memcpy(to + (c + 2 * i) * stride + r, &even, sizeof even);
        __builtin_memcpy(to + (c + 2 * i + 1) * stride + r, &odd, sizeof odd);
      }
    }
  }
}

}  // namespace trireme::cpu::TRIREME_ISA::attention
