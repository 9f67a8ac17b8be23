// One GEMM as cuBLASLt describes it, with its algorithm.
#pragma once

#include <cublasLt.h>

#include <cstring>
#include <memory>
#include <vector>

#include "backend/cuda/check.h"
#include "backend/gemm_shape.h"

namespace trireme::cuda {

inline void check_cublas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) throw Failure("{} from {}", cublasLtGetStatusString(status), call);
}
#define CUBLAS_CHECK(call) ::trireme::cuda::check_cublas(call, #call)

template <class Handle, cublasStatus_t (*destroy)(Handle)>
struct DestroyCublas {
  using pointer = Handle;
  void operator()(Handle handle) const { destroy(handle); }
};
template <class Handle, cublasStatus_t (*destroy)(Handle)>
using OwnedCublas = std::unique_ptr<Handle, DestroyCublas<Handle, destroy>>;

inline constexpr int64_t kGemmWorkspaceBytes = int64_t{32} << 20;

struct GemmOperands {
  const void *a = nullptr, *b = nullptr;
  void* d = nullptr;
  Accumulate accumulate = Accumulate::no;              // whether to add to D
  const void* bias = nullptr;                          // [m], for epilogues with a bias
  void* pre = nullptr;                                 // [m,n] as D: written by gelu_bias, read by d_gelu
  const float *a_scale = nullptr, *b_scale = nullptr;  // FP8 operands are multiplied by these
};

// Where GEMMs run.
struct GemmPlace {
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;  // kGemmWorkspaceBytes of device memory
  cudaStream_t stream = nullptr;
};

inline bool same(const cublasLtMatmulAlgo_t& a, const cublasLtMatmulAlgo_t& b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

class GemmPlan {
 public:
  explicit GemmPlan(const GemmShape& shape);

  void execute(const GemmOperands& operands, const GemmPlace& where) { CUBLAS_CHECK(attempt(algorithm, operands, where)); }
  cublasStatus_t attempt(const cublasLtMatmulAlgo_t& with, const GemmOperands& operands, const GemmPlace& where);
  void put_first(const cublasLtMatmulAlgo_t& known);  // makes `known` the first finalist and uses it
  // Sets what epilogues and FP8 need; call it before the library is asked for algorithms.
  void point_at(const GemmOperands& operands);

  using Layout = OwnedCublas<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
  OwnedCublas<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> description;
  Layout a, b, d;
  cublasLtMatmulAlgo_t algorithm{};
  std::vector<cublasLtMatmulAlgo_t> finalists;  // tuned algorithms; the first is used unless another is selected

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof(value)));
  }
};

}  // namespace trireme::cuda
