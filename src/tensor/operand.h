// What a linear layer consumes: a tensor and, when the recipe asks for them, its copies in FP8. Whoever writes an operand fills
// the copies it has; products read the copies instead of the tensor.
#pragma once

#include "tensor/tensor.h"

namespace trireme {

// Where the scale of FP8 values comes from.
enum class Fp8Scaling : uint8_t {
  delayed,  // it is there already, made from the tensors of earlier steps
  current,  // from the tensor itself: its largest value is found first
};

// Copies of a tensor that is seen as a matrix [N,C]. FP8 products read both of their operands along the dimension they sum over,
// so there is one copy for each.
struct Fp8Copy {
  static constexpr int64_t kSumRows = 128;

  Tensor values;      // [N,C] f8e4m3 or f8e5m2: round(x * scale), saturated
  Tensor transposed;  // [C,N] the same
  Tensor
      column_sums;  // [N / kSumRows rounded up,C] f32, optional: of x itself over each kSumRows rows, for the gradient of a bias
  Tensor scale;     // [1] f32
  Tensor inverse;   // [1] f32: 1 / scale
  Tensor amax;      // [1] f32: raised to the largest |x|; with current scaling it is that
  float largest = 0;                    // what current scaling takes the largest |x| to
  const Fp8Scaling* scaling = nullptr;  // read when an op is enqueued

  explicit operator bool() const { return static_cast<bool>(scale); }
  DType dtype() const { return values ? values.dtype : transposed.dtype; }
};

// What becomes of the tensor beside its FP8 copies.
enum class Wide : uint8_t {
  kept,
  scratch,  // nobody reads it: memory to work in while the copies are made
};

// A tensor with its FP8 copies. It is not itself a tensor: what is cut out of `tensor` has no copies, and its caller says so.
struct Operand {
  Tensor tensor;
  Fp8Copy fp8;
  Wide wide = Wide::kept;

  Operand() = default;
  Operand(const Tensor& plain) : tensor(plain) {}  // implicitly: most operands are plain tensors
  Operand(const Tensor& with, const Fp8Copy& copies, Wide keep) : tensor(with), fp8(copies), wide(keep) {}

  explicit operator bool() const { return static_cast<bool>(tensor); }  // an optional operand may be absent
  const Shape& shape() const { return tensor.shape; }
  DType dtype() const { return tensor.dtype; }
  int64_t count() const { return tensor.count(); }
  Operand reshaped(const Shape& to) const { return {tensor.reshaped(to), fp8, wide}; }
};

}  // namespace trireme
