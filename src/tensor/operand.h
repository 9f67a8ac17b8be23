// An operand of a linear layer: a tensor and, if the recipe asks for them, its FP8 copies. The op that writes an operand fills
// its FP8 copies; GEMMs read them instead of the tensor.
#pragma once

#include "tensor/tensor.h"

namespace trireme {

// Where the scale of FP8 values comes from.
enum class Fp8Scaling : uint8_t {
  delayed,  // known before, from the tensors of earlier steps
  current,  // computed from the tensor itself, after a pass over it for its largest value
};

// FP8 copies of a tensor seen as a matrix [N,C]. An FP8 GEMM reads both operands along the dimension it sums over, so there is
// one copy per dimension.
struct Fp8Copy {
  static constexpr int64_t kSumRows = 128;

  Tensor values;      // [N,C] f8e4m3 or f8e5m2: round(x * scale), saturated
  Tensor transposed;  // [C,N] the same values
  // [N / kSumRows rounded up,C] f32, optional: sums of x over each kSumRows rows, for the gradient of a bias.
  Tensor column_sums;
  Tensor scale;                         // [1] f32
  Tensor inverse;                       // [1] f32: 1 / scale
  Tensor amax;                          // [1] f32: with current scaling the largest |x|; with delayed scaling raised to it
  float largest = 0;                    // the value to which current scaling maps the largest |x|
  const Fp8Scaling* scaling = nullptr;  // read when an op is enqueued

  explicit operator bool() const { return static_cast<bool>(scale); }
  DType dtype() const { return values ? values.dtype : transposed.dtype; }
};

// What happens to the tensor when FP8 copies are made of it.
enum class Wide : uint8_t {
  kept,
  scratch,  // no op reads it: its memory is only used while the FP8 copies are made
};

// A tensor with its FP8 copies. It is not itself a tensor: a part of `tensor` has no FP8 copies, so the caller takes parts of it
// explicitly.
struct Operand {
  Tensor tensor;
  Fp8Copy fp8;
  Wide wide = Wide::kept;

  Operand() = default;
  Operand(const Tensor& plain) : tensor(plain) {}  // implicit, because most operands are plain tensors
  Operand(const Tensor& with, const Fp8Copy& copies, Wide keep) : tensor(with), fp8(copies), wide(keep) {}

  explicit operator bool() const { return static_cast<bool>(tensor); }  // an optional operand may be absent
  const Shape& shape() const { return tensor.shape; }
  DType dtype() const { return tensor.dtype; }
  int64_t count() const { return tensor.count(); }
  Operand reshaped(const Shape& to) const { return {tensor.reshaped(to), fp8, wide}; }
};

}  // namespace trireme
