#include "backend/cuda/gemm_plan.h"

#include "tensor/fp8.h"

namespace trireme::cuda {
namespace {

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f8e4m3:
      return CUDA_R_8F_E4M3;
    case DType::f8e5m2:
      return CUDA_R_8F_E5M2;
    default:
      CHECK(dtype == DType::f32);
      return CUDA_R_32F;
  }
}
// The type of biases and GELU inputs of a GEMM with such operands.
cudaDataType_t beside(DType dtype) { return is_fp8(dtype) ? CUDA_R_16BF : cuda_type(dtype); }

cublasLtEpilogue_t cublas_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu_bias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::d_gelu:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

GemmPlan::Layout make_layout(DType dtype, int64_t rows, int64_t columns, Transposed transposed) {
  if (transposed == Transposed::yes) std::swap(rows, columns);
  cublasLtMatrixLayout_t layout = nullptr;
  CUBLAS_CHECK(
      cublasLtMatrixLayoutCreate(&layout, cuda_type(dtype), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows));
  return GemmPlan::Layout(layout);
}

}  // namespace

GemmPlan::GemmPlan(const GemmShape& p)
    : a(make_layout(p.a, p.m, p.k, p.a_transposed)),
      b(make_layout(p.b, p.k, p.n, p.b_transposed)),
      d(make_layout(p.out, p.m, p.n, Transposed::no)) {
  cublasLtMatmulDesc_t made = nullptr;
  CUBLAS_CHECK(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  description.reset(made);
  const auto operation = [](Transposed t) { return t == Transposed::yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(CUBLASLT_MATMUL_DESC_TRANSA, operation(p.a_transposed));
  set(CUBLASLT_MATMUL_DESC_TRANSB, operation(p.b_transposed));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, cublas_epilogue(p.epilogue));
  if (p.epilogue == Epilogue::gelu_bias || p.epilogue == Epilogue::d_gelu) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.m);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, beside(p.a));
  }
  if (p.epilogue == Epilogue::bias || p.epilogue == Epilogue::gelu_bias) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, beside(p.a));
  if (p.sums == Sums::fast) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
}

void GemmPlan::put_first(const cublasLtMatmulAlgo_t& known) {
  std::erase_if(finalists, [&](const cublasLtMatmulAlgo_t& finalist) { return same(finalist, known); });
  finalists.insert(finalists.begin(), known);
  algorithm = known;
}

void GemmPlan::point_at(const GemmOperands& operands) {
  if (operands.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  if (operands.pre != nullptr) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.pre);
  if (operands.a_scale != nullptr) set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.a_scale);
  if (operands.b_scale != nullptr) set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.b_scale);
}

cublasStatus_t GemmPlan::attempt(const cublasLtMatmulAlgo_t& with, const GemmOperands& operands, const GemmPlace& where) {
  constexpr float kAlpha = 1;
  const float beta = operands.accumulate == Accumulate::yes ? 1 : 0;
  point_at(operands);
  return cublasLtMatmul(where.handle, description.get(), &kAlpha, operands.a, a.get(), operands.b, b.get(), &beta, operands.d,
                        d.get(), operands.d, d.get(), &with, where.workspace, static_cast<size_t>(kGemmWorkspaceBytes),
                        where.stream);
}

}  // namespace trireme::cuda
