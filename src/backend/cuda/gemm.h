// Matrix products by cuBLASLt. The algorithm for a shape is found once and kept, in memory and in a file, so that the next run of
// the same program on the same GPU starts with the same plans and gives the same bits.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "backend/cuda/gemm_plan.h"
#include "backend/cuda/plan_file.h"

namespace trireme::cuda {

class Gemm {
 public:
  explicit Gemm(const std::string& device);
  ~Gemm();

  void run(Product product, const ProductOperands& operands, void* workspace, cudaStream_t stream);

 private:
  void announce_tuning(const Product& product);  // of products so large that it takes seconds, once
  GemmPlan& plan_for(const Product& product, const ProductOperands& operands, const GemmPlace& where);

  std::string device_;
  bool announced_ = false;
  cublasLtHandle_t handle_ = nullptr;
  PlanFile file_;
  std::map<Product, std::unique_ptr<GemmPlan>> plans_;
};

}  // namespace trireme::cuda
