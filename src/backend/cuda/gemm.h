// Matrix products by cuBLASLt. For every shape the library's candidates are timed once and the fastest is kept, in memory and in
// a file, so that the next run of the same program on the same GPU starts with the same plans and gives the same bits.
#pragma once

#include <cublasLt.h>

#include <map>
#include <memory>
#include <span>
#include <string>

#include "backend/cuda/plan_file.h"

namespace trireme::cuda {

struct ProductOperands {
  const void *a = nullptr, *b = nullptr;
  void* d = nullptr;
  const void* bias = nullptr;                          // [m], of the epilogues with one
  void* pre = nullptr;                                 // [m,n] as D: written by gelu_bias, read by d_gelu
  const float *a_scale = nullptr, *b_scale = nullptr;  // of operands in FP8: what their values are multiplied by
};

class Gemm {
 public:
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

  explicit Gemm(const std::string& device);
  ~Gemm();

  void run(Product product, const ProductOperands& operands, void* workspace, cudaStream_t stream);

 private:
  struct Plan;
  Plan& plan_for(const Product& product, const ProductOperands& operands, void* workspace, cudaStream_t stream);
  void tune(Plan& plan, const Product& product, const ProductOperands& operands, void* workspace, cudaStream_t stream);
  cublasLtMatmulAlgo_t fastest(Plan& plan, std::span<const cublasLtMatmulHeuristicResult_t> candidates,
                               const ProductOperands& trial, void* workspace, cudaStream_t stream);
  void execute(Plan& plan, const ProductOperands& operands, void* workspace, cudaStream_t stream);

  cublasLtHandle_t handle_ = nullptr;
  PlanFile file_;
  std::map<Product, std::unique_ptr<Plan>> plans_;
};

}  // namespace trireme::cuda
