// Linear layers. cuBLASLt sees our row-major [rows, columns] as column-major [columns, rows], so every GEMM is written
// transposed: out^T [O,N] = weight [O,I] x^T [I,N], and so on.
#include "backend/cuda/aside.h"
#include "backend/cuda/check.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/gemm.h"
#include "backend/cuda/linear_kernels.h"
#include "backend/cuda/quantize.h"

namespace trireme {
namespace {

using cuda::Epilogue;
using cuda::GemmShape;
using cuda::Transposed;

// Whether cuBLASLt's epilogues support the activation: tanh GELU in bf16, with rows that are multiples of 16 bytes.
bool fuses(Activation activation, DType dtype, int64_t width) {
  return activation == Activation::gelu_tanh && dtype == DType::bf16 && width % 8 == 0;
}

// Whether a GEMM reads FP8 copies. Both operands must have them, or neither.
bool in_fp8(const Operand& a, const Operand& b) {
  CHECK_EQ(static_cast<bool>(a.fp8), static_cast<bool>(b.fp8));
  return static_cast<bool>(a.fp8);
}

const float* inverse_scale(const Operand& operand) { return operand.fp8.inverse.as<float>(); }

// D^T [m,n] = A [m,k] B^T [k,n]; both FP8 copies are contiguous along k.
GemmShape fp8_gemm(const Tensor& a, const Tensor& b, DType out) {
  CHECK_EQ(a.shape[1], b.shape[1]);
  return {
      .m = a.shape[0], .n = b.shape[0], .k = a.shape[1], .a_transposed = Transposed::yes, .a = a.dtype, .b = b.dtype, .out = out};
}

}  // namespace

int64_t CudaBackend::scratch_bytes(const LinearForward&) const { return cuda::kGemmWorkspaceBytes; }
int64_t CudaBackend::scratch_bytes(const LinearInputGrad&) const { return cuda::kGemmWorkspaceBytes; }
int64_t CudaBackend::scratch_bytes(const LinearWeightGrad& op) const {
  return cuda::kGemmWorkspaceBytes + (op.d_out.fp8.column_sums ? 0 : cuda::column_sums_scratch(op.d_out.tensor));
}

void CudaBackend::run(Stream where, const LinearForward& op) {
  const int64_t N = op.x.shape()[0], I = op.x.shape()[1], O = op.weight.shape()[0];
  const bool fp8 = in_fp8(op.x, op.weight);
  // In FP8 the activation is computed together with the FP8 copies of its result.
  const bool fused = fuses(op.activation, op.x.dtype(), O) && op.bias && !fp8;
  const Tensor result = op.activation == Activation::none || fused ? op.out.tensor : op.pre;
  GemmShape shape{
      .m = O, .n = N, .k = I, .a_transposed = Transposed::yes, .a = op.x.dtype(), .b = op.x.dtype(), .out = op.x.dtype()};
  cuda::GemmOperands operands{.a = op.weight.tensor.data,
                              .b = op.x.tensor.data,
                              .d = result.data,
                              .bias = op.bias.data,
                              .pre = fused ? op.pre.data : nullptr};
  if (fp8) {
    shape = fp8_gemm(op.weight.fp8.values, op.x.fp8.values, op.x.dtype());
    shape.sums = cuda::Sums::fast;
    operands.a = op.weight.fp8.values.data, operands.a_scale = inverse_scale(op.weight);
    operands.b = op.x.fp8.values.data, operands.b_scale = inverse_scale(op.x);
  }
  shape.epilogue = fused ? Epilogue::gelu_bias : op.bias ? Epilogue::bias : Epilogue::none;
  gemm_->run(shape, operands, scratch(cuda::kGemmWorkspaceBytes), stream(where));
  if (op.activation == Activation::none || fused)
    fill_copies(where, op.out);
  else
    run(where, ActivationForward{.activation = op.activation, .pre = op.pre, .out = op.out});
}

void CudaBackend::run(Stream where, const LinearInputGrad& op) {
  const int64_t N = op.d_out.shape()[0], O = op.d_out.shape()[1], I = op.weight.shape()[1];
  const bool fp8 = in_fp8(op.d_out, op.weight), fused = fuses(op.activation, op.d_x.dtype(), I) && !fp8;
  GemmShape shape{.m = I, .n = N, .k = O, .a = op.d_out.dtype(), .b = op.d_out.dtype(), .out = op.d_x.dtype()};
  cuda::GemmOperands operands{.a = op.weight.tensor.data,
                              .b = op.d_out.tensor.data,
                              .d = op.d_x.tensor.data,
                              .bias = nullptr,
                              .pre = fused ? op.pre.data : nullptr};
  if (fp8) {
    shape = fp8_gemm(op.weight.fp8.transposed, op.d_out.fp8.values, op.d_x.dtype());
    shape.sums = cuda::Sums::fast;
    operands.a = op.weight.fp8.transposed.data, operands.a_scale = inverse_scale(op.weight);
    operands.b = op.d_out.fp8.values.data, operands.b_scale = inverse_scale(op.d_out);
  }
  shape.epilogue = fused ? Epilogue::d_gelu : Epilogue::none;
  const bool together = op.x && op.d_x.fp8 && op.x.fp8 && cuda::can_remake(op.x);
  if (op.x && !together) run(where, ActivationForward{.activation = op.activation, .pre = op.pre, .out = op.x});
  gemm_->run(shape, operands, scratch(cuda::kGemmWorkspaceBytes), stream(where));
  if (op.activation == Activation::none || fused) return fill_copies(where, op.d_x);
  if (together)
    cuda::quantize_activation_grad(op.activation, op.pre, op.d_x, op.x, stream(where));
  else if (op.d_x.fp8)
    cuda::quantize_activation_grad(op.activation, op.pre, op.d_x, stream(where));
  if (op.d_x.wide == Wide::kept) cuda::activation_backward(op.activation, op.pre, op.d_x.tensor, stream(where));
}

void CudaBackend::run(Stream where, const LinearWeightGrad& op) {
  const int64_t N = op.x.shape()[0], I = op.x.shape()[1], O = op.d_out.shape()[1];
  char* workspace = static_cast<char*>(scratch(where, scratch_bytes(op)));
  GemmShape shape{
      .m = I, .n = O, .k = N, .b_transposed = Transposed::yes, .a = op.x.dtype(), .b = op.x.dtype(), .out = DType::f32};
  cuda::GemmOperands operands{.a = op.x.tensor.data, .b = op.d_out.tensor.data, .d = op.d_weight.data};
  if (in_fp8(op.x, op.d_out)) {
    shape = fp8_gemm(op.x.fp8.transposed, op.d_out.fp8.transposed, DType::f32);
    operands.a = op.x.fp8.transposed.data, operands.a_scale = inverse_scale(op.x);
    operands.b = op.d_out.fp8.transposed.data, operands.b_scale = inverse_scale(op.d_out);
  }
  operands.accumulate = op.sum == GradSum::adds ? cuda::Accumulate::yes : cuda::Accumulate::no;
  const auto multiply = [&](cudaStream_t stream) { gemm_->run(shape, operands, workspace, stream); };
  if (!op.d_bias) return multiply(stream(where));
  const auto add_sums = [&](cudaStream_t stream) {
    if (op.d_out.fp8.column_sums)
      cuda::add_partial_sums(op.d_out.fp8.column_sums, op.d_bias, stream);
    else
      cuda::add_column_sums(op.d_out.tensor, op.d_bias, workspace + cuda::kGemmWorkspaceBytes, stream);
  };
  // A GEMM with fewer tiles than multiprocessors leaves some idle. With few rows it is finished before another stream starts.
  if (where == kCompute && cuda::gemm_tiles(I, O) < multiprocessors_ && N >= full_speed_rows())
    return aside_->run(stream(where), multiply, add_sums);
  multiply(stream(where));
  add_sums(stream(where));
}

}  // namespace trireme
