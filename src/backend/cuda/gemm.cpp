#include "backend/cuda/gemm.h"

#include <algorithm>

#include "backend/cuda/gemm_tuner.h"

namespace trireme::cuda {

Gemm::Gemm(const std::string& device) : device_(device), file_(device) { CUBLAS_CHECK(cublasLtCreate(&handle_)); }
Gemm::~Gemm() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

void Gemm::run(Product product, const ProductOperands& operands, void* workspace, cudaStream_t stream) {
  for (const void* pointer :
       {operands.a, operands.b, static_cast<const void*>(operands.d), operands.bias, static_cast<const void*>(operands.pre)})
    while (reinterpret_cast<uintptr_t>(pointer) % product.alignment != 0) product.alignment /= 2;
  const GemmPlace here{.handle = handle_, .workspace = workspace, .stream = stream};
  plan_for(product, operands, here).execute(operands, here);
}

void Gemm::announce_tuning(const Product& product) {
  constexpr double kLong = 1e10;  // multiply-adds
  if (announced_ || static_cast<double>(product.m) * static_cast<double>(product.n) * static_cast<double>(product.k) < kLong)
    return;
  announced_ = true;
  fmt::print(stderr, "tuning  products for {}: the first step takes up to a minute longer, once for a model\n", device_);
}

void Gemm::use_finalist(const Product& product, int finalist) {
  GemmPlan& plan = *plans_.at(product);
  plan.algorithm = plan.finalists.at(static_cast<size_t>(finalist));
}

void Gemm::keep(const Product& product, int finalist) {
  use_finalist(product, finalist);
  file_.add(product, plans_.at(product)->algorithm);
}

GemmPlan& Gemm::plan_for(const Product& product, const ProductOperands& operands, const GemmPlace& where) {
  if (keeps_finalists_) used_.insert(product);
  std::unique_ptr<GemmPlan>& plan = plans_[product];
  if (!plan) {
    plan = std::make_unique<GemmPlan>(product);
    const cublasLtMatmulAlgo_t* known = file_.find(product);
    if (known == nullptr || keeps_finalists_) tune(*plan, product, operands, where);
    if (known != nullptr) plan->put_first(*known);
    if (known == nullptr) file_.add(product, plan->algorithm);
  }
  return *plan;
}

void Gemm::tune(GemmPlan& plan, const Product& product, const ProductOperands& operands, const GemmPlace& where) {
  constexpr size_t kFinalists = 5;
  announce_tuning(product);
  CUDA_CHECK(cudaDeviceSynchronize());  // so that no other stream runs while candidates are timed
  plan.finalists = tuned_algorithms(plan, product, operands, where);
  plan.finalists.resize(std::min(plan.finalists.size(), keeps_finalists_ ? kFinalists : 1));
  plan.algorithm = plan.finalists.front();
}

}  // namespace trireme::cuda
