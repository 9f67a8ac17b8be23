// Elements of a tensor of any dtype as doubles.
#pragma once

#include "backend/ops.h"
#include "base/philox.h"
#include "tensor/fp8.h"

namespace trireme::reference {

inline double get(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype) {
    case DType::f32:
      return static_cast<const float*>(tensor.data)[i];
    case DType::bf16:
      return to_float(static_cast<const bf16*>(tensor.data)[i]);
    case DType::f16:
      return to_float(static_cast<const f16*>(tensor.data)[i]);
    case DType::f64:
      return static_cast<const double*>(tensor.data)[i];
    case DType::i32:
      return static_cast<const int32_t*>(tensor.data)[i];
    default:
      break;
  }
  CHECK_NEVER("dtype without arithmetic");
}

inline void set(const Tensor& tensor, int64_t i, double value) {
  switch (tensor.dtype) {
    case DType::f32:
      static_cast<float*>(tensor.data)[i] = static_cast<float>(value);
      return;
    case DType::bf16:
      static_cast<bf16*>(tensor.data)[i] = to_bf16(static_cast<float>(value));
      return;
    case DType::f16:
      static_cast<f16*>(tensor.data)[i] = to_f16(static_cast<float>(value));
      return;
    case DType::f64:
      static_cast<double*>(tensor.data)[i] = value;
      return;
    default:
      break;
  }
  CHECK_NEVER("dtype without arithmetic");
}

inline void add(const Tensor& tensor, int64_t i, double value) { set(tensor, i, get(tensor, i) + value); }

// Element (row, column) of a GEMM operand, from its FP8 copy along rows or along columns if it has one.
inline double by_rows(const Operand& operand, int64_t row, int64_t column) {
  const int64_t columns = operand.shape()[1];
  if (!operand.fp8) return get(operand.tensor, row * columns + column);
  const Tensor& values = operand.fp8.values;
  return from_fp8(values.dtype, static_cast<const uint8_t*>(values.data)[row * columns + column]) * get(operand.fp8.inverse, 0);
}
inline double by_columns(const Operand& operand, int64_t row, int64_t column) {
  const int64_t rows = operand.shape()[0], columns = operand.shape()[1];
  if (!operand.fp8) return get(operand.tensor, row * columns + column);
  const Tensor& values = operand.fp8.transposed;
  return from_fp8(values.dtype, static_cast<const uint8_t*>(values.data)[column * rows + row]) * get(operand.fp8.inverse, 0);
}

// The factor that dropout applies to element (row, index).
inline double dropout_factor(const Dropout& dropout, uint32_t site, int64_t row, int64_t index) {
  if (!dropout.active()) return 1;
  const PhiloxBlock block = dropout_block(dropout.seed, site, dropout.row_keys.as<int64_t>()[row], index);
  const bool keep = block[static_cast<size_t>(index % 4)] >= dropout_threshold(dropout.probability);
  return keep ? 1 / (1 - static_cast<double>(dropout.probability)) : 0;
}
inline double dropout_factor(const Dropout& dropout, int64_t row, int64_t index) {
  return dropout_factor(dropout, dropout.site, row, index);
}

inline int64_t offset(const HeadsView& view, int64_t b, int64_t t, int64_t head) {
  const Shape& shape = view.packed.shape();  // [B,T,*,D]
  return ((b * shape[1] + t) * shape[2] + view.first + head) * shape[3];
}

inline double scalar(const Tensor& scalars, StepScalar slot) { return scalars.as<double>()[static_cast<int64_t>(slot)]; }
inline double& scalar_slot(const Tensor& scalars, StepScalar slot) { return scalars.as<double>()[static_cast<int64_t>(slot)]; }

}  // namespace trireme::reference
