// What the products of linear layers need around the inner loop: what becomes of a tile of sums, and products of so few rows
// that packing would not pay. One table per instruction set.
#pragma once

#include "backend/cpu/kernels/gemm.h"

namespace trireme::cpu {

enum class Gelu : uint8_t { none, tanh, erf };

// What becomes of sums[M,N].
enum class Finish : uint8_t {
  activate,  // pre = sums + bias, out = activation(pre) reading the rounded pre    (LinearForward)
  derive,    // out = sums * activation'(pre)                                       (LinearInputGrad)
  add,       // out += sums, f32                                                    (LinearWeightGrad)
};

// The matrices around a product, all [M,N] without gaps, of `element` unless said otherwise. The tile functions take a part of
// them.
struct FinishOperands {
  Finish finish = Finish::activate;
  Gelu gelu = Gelu::none;
  Element element = Element::f32;
  int64_t columns = 0;         // N
  bool streams = false;        // whole lines of pre and out go past the caches: they are large, and 64-byte aligned
  const void* bias = nullptr;  // [N], optional
  void* pre = nullptr;         // with an activation only
  void* out = nullptr;
};

// A part of the sums: its place in [M,N] and its size.
struct TilePlace {
  int64_t row = 0, column = 0, rows = 0, columns = 0;
};

struct LinearKernel {
  // sums: [place.rows, stride] f32, stride a multiple of 16 that is at least place.columns.
  void (*finish)(const FinishOperands& operands, const TilePlace& place, const float* sums, int64_t stride);
  void (*end_stream)();  // after the last finish of a task that streams

  // sums[r, c] = sum over k of a[r, k] b[c, k].    a [rows, k] and b [columns, k] without gaps, rows <= kFewRows; sums [rows,
  // stride].
  static constexpr int64_t kFewRows = 4;
  void (*multiply_few)(Element element, const void* a, const void* b, int64_t rows, int64_t columns, int64_t k, float* sums,
                       int64_t stride);
};

namespace baseline {
extern const LinearKernel kLinearKernel;
}
namespace avx2 {
extern const LinearKernel kLinearKernel;
}
namespace avx512 {
extern const LinearKernel kLinearKernel;
}
namespace avx512_bf16 {
extern const LinearKernel kLinearKernel;
}

}  // namespace trireme::cpu
