// Copies blocks of heads from strided tensors into the layouts that the GEMMs read.
#pragma once

#include "backend/cpu/kernels/attention_block.h"

namespace trireme::cpu::TRIREME_ISA::attention {

// Swaps x[i][j] and x[j][i] by four perfect shuffles of the 16 rows. Moves 32-bit lanes of any content.
TRIREME_INLINE void transpose(f32x16 (&x)[kLanes]) {
  for (int pass = 0; pass < 4; ++pass) {
    f32x16 y[kLanes];
    for (int i = 0; i < 8; ++i) {
      y[2 * i] = __builtin_shufflevector(x[i], x[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    for (int i = 0; i < kLanes; ++i) x[i] = y[i];
  }
}

template <class Source>
TRIREME_INLINE f32x16 load_up_to(const Source* from, int64_t count) {
  return count >= kLanes ? load(from) : load_part(from, count);
}

template <class Target>
TRIREME_INLINE void store_up_to(Target* to, f32x16 v, int64_t count) {
  if (count >= kLanes)
    store(to, v);
  else
    store_part(to, v, count);
}

// to[r][0 .. stride) = from[r][0 .. width), then zeros.
template <class Source>
void pack_rows(const Source* from, int64_t from_stride, int64_t rows, int64_t width, float* to, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < stride; c += kLanes) store(to + r * stride + c, load_up_to(from + r * from_stride + c, width - c));
}

// to[c][r] = from[r][c] for columns up to width and rows up to `stride`; zero where there is no source.
template <class Source>
void pack_transposed(const Source* from, int64_t from_stride, int64_t rows, int64_t width, float* to, int64_t stride) {
  for (int64_t r = 0; r < padded(rows, kLanes); r += kLanes) {
    for (int64_t c = 0; c < width; c += kLanes) {
      f32x16 x[kLanes];
      for (int i = 0; i < kLanes; ++i) x[i] = r + i < rows ? load_up_to(from + (r + i) * from_stride + c, width - c) : splat(0);
      transpose(x);
      for (int i = 0; i < kLanes; ++i) store(to + (c + i) * stride + r, x[i]);
    }
  }
}

// to[r][0 .. width) = factor * from[r][0 .. width).
template <class Target>
void unpack_row(const float* from, float factor, int64_t width, Target* to) {
  for (int64_t c = 0; c < width; c += kLanes) store_up_to(to + c, load(from + c) * factor, width - c);
}

template <class Source>
float dot(const Source* a, const Source* b, int64_t width) {
  f32x16 sum = splat(0);
  for (int64_t c = 0; c < width; c += kLanes) sum += load_up_to(a + c, width - c) * load_up_to(b + c, width - c);
  return reduce_sum(sum);
}

}  // namespace trireme::cpu::TRIREME_ISA::attention
