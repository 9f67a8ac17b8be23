// The parts of linear layers around the inner loop: the epilogue of a tile of sums, and GEMMs with so few rows that packing does
// not pay. One table per instruction set.
#pragma once

#include "backend/cpu/kernels/gemm.h"

namespace trireme::cpu {

enum class Gelu : uint8_t { none, tanh, erf };

// The epilogue of sums[M,N].
enum class Finish : uint8_t {
  activate,  // pre = sums + bias, out = activation(pre) reading the rounded pre    (LinearForward)
  derive,    // out = sums * activation'(pre)                                       (LinearInputGrad)
  add,       // out += sums, f32                                                    (LinearWeightGrad)
};

// The operands of the epilogue, all contiguous [M,N] of `element` unless stated otherwise. The tile functions process a part of
// them.
struct FinishOperands {
  Finish finish = Finish::activate;
  Gelu gelu = Gelu::none;
  Element element = Element::f32;
  int64_t columns = 0;         // N
  bool streams = false;        // whether pre and out are written past the caches: they must be large and 64-byte aligned
  const void* bias = nullptr;  // [N], optional
  void* pre = nullptr;         // only with an activation
  void* out = nullptr;
};

// A part of the sums: its position in [M,N] and its size.
struct TilePlace {
  int64_t row = 0, column = 0, rows = 0, columns = 0;
};

struct LinearKernel {
  // Runs the epilogue.    sums: [place.rows, stride] f32; stride is a multiple of 16 and at least place.columns.
  void (*finish)(const FinishOperands& operands, const TilePlace& place, const float* sums, int64_t stride);
  void (*end_stream)();  // call it after the last finish of a task that streams

  // sums[r, c] = sum over k of a[r, k] b[c, k].    a [rows, k] and b [columns, k] contiguous, rows <= kFewRows; sums [rows,
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
