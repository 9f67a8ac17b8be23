// Linear layers: forward, dgrad and wgrad are one GEMM each.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/gemm.h"

namespace trireme {
namespace {

using cpu::Element;
using cpu::Finish;
using cpu::Gelu;
using cpu::Gemm;
using cpu::GemmOperand;
using cpu::Layout;

Element element_of(const Tensor& tensor) {
  CHECK(tensor.dtype == DType::f32 || tensor.dtype == DType::bf16 || tensor.dtype == DType::f16);
  return tensor.dtype == DType::f32 ? Element::f32 : tensor.dtype == DType::bf16 ? Element::bf16 : Element::f16;
}

Gelu gelu_of(Activation activation) {
  switch (activation) {
    case Activation::none:
      return Gelu::none;
    case Activation::gelu_tanh:
      return Gelu::tanh;
    case Activation::gelu_erf:
      return Gelu::erf;
  }
  return Gelu::none;
}

// A matrix as a GEMM operand whose width is its first dimension, or its second.
GemmOperand rows_of(const Tensor& matrix) { return {matrix.data, element_of(matrix), Layout::k_contiguous, matrix.shape[1]}; }
GemmOperand columns_of(const Tensor& matrix) {
  return {matrix.data, element_of(matrix), Layout::width_contiguous, matrix.shape[1]};
}

void check_matrix(const Operand& matrix, int64_t rows, int64_t columns, DType dtype) {
  CHECK(!matrix.fp8);
  CHECK_EQ(matrix.shape(), (Shape{rows, columns}));
  CHECK(matrix.dtype() == dtype);
}

// Whether to write an output past the caches, because it would be evicted before it is read.
bool streams(const Tensor& out) {
  constexpr int64_t kLarge = int64_t{16} << 20, kLine = 64;
  const bool aligned = reinterpret_cast<uintptr_t>(out.data) % kLine == 0 && out.shape[1] * size_of(out.dtype) % kLine == 0;
  return out.bytes() >= kLarge && aligned;
}

// out[N,O] = x[N,I] weight[O,I]^T
Gemm gemm_of(const LinearForward& op) {
  const int64_t rows = op.x.shape()[0], inputs = op.x.shape()[1], outputs = op.weight.shape()[0];
  check_matrix(op.weight, outputs, inputs, op.x.dtype());
  check_matrix(op.out, rows, outputs, op.x.dtype());
  CHECK_EQ(static_cast<bool>(op.pre), op.activation != Activation::none);
  if (op.pre) check_matrix(op.pre, rows, outputs, op.x.dtype());
  if (op.bias) check_matrix(op.bias.reshaped({1, op.bias.count()}), 1, outputs, op.x.dtype());
  return {.m = rows,
          .n = outputs,
          .k = inputs,
          .a = rows_of(op.x.tensor),
          .b = rows_of(op.weight.tensor),
          .finish = {.finish = Finish::activate,
                     .gelu = gelu_of(op.activation),
                     .element = element_of(op.out.tensor),
                     .columns = outputs,
                     .streams = streams(op.out.tensor),
                     .bias = op.bias.data,
                     .pre = op.pre.data,
                     .out = op.out.tensor.data}};
}

// d_x[N,I] = d_out[N,O] weight[O,I]
Gemm gemm_of(const LinearInputGrad& op) {
  const int64_t rows = op.d_out.shape()[0], outputs = op.d_out.shape()[1], inputs = op.weight.shape()[1];
  check_matrix(op.weight, outputs, inputs, op.d_out.dtype());
  check_matrix(op.d_x, rows, inputs, op.d_out.dtype());
  CHECK_EQ(static_cast<bool>(op.pre), op.activation != Activation::none);
  if (op.pre) check_matrix(op.pre, rows, inputs, op.d_out.dtype());
  return {.m = rows,
          .n = inputs,
          .k = outputs,
          .a = rows_of(op.d_out.tensor),
          .b = columns_of(op.weight.tensor),
          .finish = {.finish = Finish::derive,
                     .gelu = gelu_of(op.activation),
                     .element = element_of(op.d_x.tensor),
                     .columns = inputs,
                     .streams = streams(op.d_x.tensor),
                     .pre = op.pre.data,
                     .out = op.d_x.tensor.data}};
}

// d_weight[O,I] += d_out[N,O]^T x[N,I];  d_bias[O] += column sums of d_out
Gemm gemm_of(const LinearWeightGrad& op) {
  const int64_t rows = op.x.shape()[0], inputs = op.x.shape()[1], outputs = op.d_out.shape()[1];
  check_matrix(op.d_out, rows, outputs, op.x.dtype());
  check_matrix(op.d_weight, outputs, inputs, DType::f32);
  if (op.d_bias) check_matrix(op.d_bias.reshaped({1, op.d_bias.count()}), 1, outputs, DType::f32);
  return {.m = outputs,
          .n = inputs,
          .k = rows,
          .a = columns_of(op.d_out.tensor),
          .b = columns_of(op.x.tensor),
          .finish = {.finish = Finish::add, .columns = inputs, .out = op.d_weight.data},
          .a_sums = op.d_bias ? op.d_bias.as<float>() : nullptr};
}

std::span<std::byte> bytes_of(const Tensor& scratch) {
  return {static_cast<std::byte*>(scratch.data), static_cast<size_t>(scratch.bytes())};
}

}  // namespace

void CpuBackend::run(Stream, const LinearForward& op) { cpu::run_gemm(pool_, isa_, gemm_of(op), bytes_of(scratch_)); }
void CpuBackend::run(Stream stream, const LinearInputGrad& op) {
  if (op.x) run(stream, ActivationForward{.activation = op.activation, .pre = op.pre, .out = op.x});
  cpu::run_gemm(pool_, isa_, gemm_of(op), bytes_of(scratch_));
}
void CpuBackend::run(Stream stream, const LinearWeightGrad& op) {
  if (op.sum == GradSum::replaces) run(stream, Fill{.value = 0, .out = op.d_weight});
  cpu::run_gemm(pool_, isa_, gemm_of(op), bytes_of(scratch_));
}

int64_t CpuBackend::scratch_bytes(const LinearForward& op) const {
  return cpu::gemm_scratch_bytes(pool_.size(), isa_, gemm_of(op));
}
int64_t CpuBackend::scratch_bytes(const LinearInputGrad& op) const {
  return cpu::gemm_scratch_bytes(pool_.size(), isa_, gemm_of(op));
}
int64_t CpuBackend::scratch_bytes(const LinearWeightGrad& op) const {
  return cpu::gemm_scratch_bytes(pool_.size(), isa_, gemm_of(op));
}

}  // namespace trireme
