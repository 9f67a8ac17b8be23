// Packs f32 panels from f32, bf16 or f16. A panel is [k][Stride] floats, of which the first Width are rows of the operand. No
// GEMM reads the padding lanes up to Stride.
#pragma once

#include "backend/cpu/kernels/gemm_vector.h"

namespace trireme::cpu::TRIREME_ISA {

// The slow path for edges: `width` <= Width rows; further lanes are zero.
template <int Stride, class T>
TRIREME_INLINE void pack_elements(const T* from, int64_t w_step, int64_t k_step, int64_t width, int64_t k, float* to) {
  for (int64_t i = 0; i < k; ++i)
    for (int64_t w = 0; w < Stride; ++w) to[i * Stride + w] = w < width ? widen_element(from[w * w_step + i * k_step]) : 0.0f;
}

// For operands with contiguous rows: transposes squares of register width.
template <int Width, int Stride, class T>
void pack_k_contiguous(const void* source, int64_t stride, int64_t width, int64_t k, void* packed, float* /*row_sums*/) {
  static_assert(Stride % kRegisterLanes == 0 && Stride - Width < kRegisterLanes);
  const T* from = static_cast<const T*>(source);
  float* to = static_cast<float*>(packed);
  const int64_t k_whole = k / kRegisterLanes * kRegisterLanes;
  for (int64_t first = 0; first < width; first += Width, from += Width * stride, to += k * Stride) {
    if (first + Width > width) {
      pack_elements<Stride>(from, stride, 1, width - first, k, to);
      continue;
    }
    for (int64_t i = 0; i < k_whole; i += kRegisterLanes) {
      for (int group = 0; group < Stride; group += kRegisterLanes) {
        Register square[kRegisterLanes];
#pragma GCC unroll 16
        for (int lane = 0; lane < kRegisterLanes; ++lane)
          square[lane] = group + lane < Width ? load_register(from + (group + lane) * stride + i) : Register{};
        transpose(square);
#pragma GCC unroll 16
        for (int lane = 0; lane < kRegisterLanes; ++lane) store_register(to + (i + lane) * Stride + group, square[lane]);
      }
    }
    pack_elements<Stride>(from + k_whole, stride, 1, Width, k - k_whole, to + k_whole * Stride);
  }
}

// to[c] += sum over rows of from[row, c].    from [rows, columns] with a stride.
template <class T>
void add_columns(const T* from, int64_t stride, int64_t rows, int64_t columns, float* to) {
  constexpr int kRegisters = 4;  // enough independent additions to hide their latency
  int64_t c = 0;
  for (; c + kRegisters * kRegisterLanes <= columns; c += kRegisters * kRegisterLanes) {
    Register sums[kRegisters] = {};
    for (int64_t row = 0; row < rows; ++row)
#pragma GCC unroll 4
      for (int i = 0; i < kRegisters; ++i) sums[i] += load_register(from + row * stride + c + i * kRegisterLanes);
    for (int i = 0; i < kRegisters; ++i) {
      float* place = to + c + i * kRegisterLanes;
      store_register(place, load_register(place) + sums[i]);
    }
  }
  for (; c < columns; ++c) {
    float sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += widen_element(from[row * stride + c]);
    to[c] += sum;
  }
}

// For operands with contiguous columns: copies one k of all panels at a time, so that memory is read in long runs.
template <int Width, int Stride, class T>
void pack_width_contiguous(const void* source, int64_t stride, int64_t width, int64_t k, void* packed, float* row_sums) {
  const T* from = static_cast<const T*>(source);
  float* to = static_cast<float*>(packed);
  // A whole register may be loaded as long as the row has so many elements left, even if they belong to the next panel.
  const int64_t whole = width < Stride ? 0 : (width - Stride) / Width + 1;
  for (int64_t i = 0; i < k; ++i)
    for (int64_t panel = 0; panel < whole; ++panel)
#pragma GCC unroll 8
      for (int group = 0; group < Stride; group += kRegisterLanes)
        store_register(to + (panel * k + i) * Stride + group, load_register(from + i * stride + panel * Width + group));
  for (int64_t first = whole * Width; first < width; first += Width) {
    const int64_t left = width - first < Width ? width - first : Width;
    pack_elements<Stride>(from + first, 1, stride, left, k, to + first / Width * k * Stride);
  }
  if (row_sums != nullptr) add_columns(from, stride, k, width, row_sums);
}

}  // namespace trireme::cpu::TRIREME_ISA
