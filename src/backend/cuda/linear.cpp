// Linear layers. cuBLASLt sees our row-major [rows, columns] as column-major [columns, rows], so every product is written
// transposed: out^T [O,N] = weight [O,I] x^T [I,N], and so on.
#include "backend/cuda/check.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/gemm.h"
#include "backend/cuda/linear_kernels.h"

namespace trireme {
namespace {

using cuda::Epilogue;
using cuda::Product;
using cuda::Transposed;

// What the library's epilogues can do: GELU by tanh in bf16, with rows of whole 16-byte pieces.
bool fuses(Activation activation, DType dtype, int64_t width) {
  return activation == Activation::gelu_tanh && dtype == DType::bf16 && width % 8 == 0;
}

}  // namespace

int64_t CudaBackend::scratch_bytes(const LinearForward&) const { return cuda::Gemm::kWorkspaceBytes; }
int64_t CudaBackend::scratch_bytes(const LinearInputGrad&) const { return cuda::Gemm::kWorkspaceBytes; }
int64_t CudaBackend::scratch_bytes(const LinearWeightGrad& op) const {
  return cuda::Gemm::kWorkspaceBytes + cuda::column_sums_scratch(op.d_out);
}

void CudaBackend::run(Stream where, const LinearForward& op) {
  const int64_t N = op.x.shape[0], I = op.x.shape[1], O = op.weight.shape[0];
  const bool fused = fuses(op.activation, op.x.dtype, O) && op.bias;
  const Tensor result = op.activation == Activation::none || fused ? op.out : op.pre;
  const Product product{.m = O,
                        .n = N,
                        .k = I,
                        .a_transposed = Transposed::yes,
                        .in = op.x.dtype,
                        .out = op.x.dtype,
                        .epilogue = fused     ? Epilogue::gelu_bias
                                    : op.bias ? Epilogue::bias
                                              : Epilogue::none};
  gemm_->run(product,
             {.a = op.weight.data, .b = op.x.data, .d = result.data, .bias = op.bias.data, .pre = fused ? op.pre.data : nullptr},
             scratch(cuda::Gemm::kWorkspaceBytes), stream(where));
  if (op.activation != Activation::none && !fused)
    run(where, ActivationForward{.activation = op.activation, .pre = op.pre, .out = op.out});
}

void CudaBackend::run(Stream where, const LinearInputGrad& op) {
  const int64_t N = op.d_out.shape[0], O = op.d_out.shape[1], I = op.weight.shape[1];
  const bool fused = fuses(op.activation, op.d_x.dtype, I);
  const Product product{
      .m = I, .n = N, .k = O, .in = op.d_out.dtype, .out = op.d_x.dtype, .epilogue = fused ? Epilogue::d_gelu : Epilogue::none};
  gemm_->run(product,
             {.a = op.weight.data, .b = op.d_out.data, .d = op.d_x.data, .bias = nullptr, .pre = fused ? op.pre.data : nullptr},
             scratch(cuda::Gemm::kWorkspaceBytes), stream(where));
  if (op.activation != Activation::none && !fused) cuda::activation_backward(op.activation, op.pre, op.d_x, stream(where));
}

void CudaBackend::run(Stream where, const LinearWeightGrad& op) {
  const int64_t N = op.x.shape[0], I = op.x.shape[1], O = op.d_out.shape[1];
  char* workspace = static_cast<char*>(scratch(scratch_bytes(op)));
  const Product product{.m = I,
                        .n = O,
                        .k = N,
                        .b_transposed = Transposed::yes,
                        .in = op.x.dtype,
                        .out = DType::f32,
                        .accumulate = cuda::Accumulate::yes};
  gemm_->run(product, {.a = op.x.data, .b = op.d_out.data, .d = op.d_weight.data}, workspace, stream(where));
  if (op.d_bias) cuda::add_column_sums(op.d_out, op.d_bias, workspace + cuda::Gemm::kWorkspaceBytes, stream(where));
}

}  // namespace trireme
