#include "backend/cuda/gemm.h"

#include <algorithm>

#include "backend/cuda/gemm_tuner.h"

namespace trireme::cuda {

Gemm::Gemm(const std::string& device) : device_(device), file_(device) { CUBLAS_CHECK(cublasLtCreate(&handle_)); }
Gemm::~Gemm() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

void Gemm::run(GemmShape shape, const GemmOperands& operands, void* workspace, cudaStream_t stream) {
  for (const void* pointer :
       {operands.a, operands.b, static_cast<const void*>(operands.d), operands.bias, static_cast<const void*>(operands.pre)})
    while (reinterpret_cast<uintptr_t>(pointer) % shape.alignment != 0) shape.alignment /= 2;
  const GemmPlace here{.handle = handle_, .workspace = workspace, .stream = stream};
  plan_for(shape, operands, here).execute(operands, here);
}

void Gemm::announce_tuning(const GemmShape& shape) {
  constexpr double kLong = 1e10;  // multiply-adds
  if (announced_ || static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k) < kLong) return;
  announced_ = true;
  fmt::print(stderr, "tuning  GEMMs for {}: the first step takes up to a minute longer, once per model\n", device_);
}

void Gemm::use_finalist(const GemmShape& shape, int finalist) {
  GemmPlan& plan = *plans_.at(shape);
  plan.algorithm = plan.finalists.at(static_cast<size_t>(finalist));
}

void Gemm::keep(const GemmShape& shape, int finalist) {
  use_finalist(shape, finalist);
  file_.add(shape, plans_.at(shape)->algorithm);
}

GemmPlan& Gemm::plan_for(const GemmShape& shape, const GemmOperands& operands, const GemmPlace& where) {
  if (keeps_finalists_) used_.insert(shape);
  std::unique_ptr<GemmPlan>& plan = plans_[shape];
  if (!plan) {
    plan = std::make_unique<GemmPlan>(shape);
    const cublasLtMatmulAlgo_t* known = file_.find(shape);
    if (known == nullptr || keeps_finalists_) tune(*plan, shape, operands, where);
    if (known != nullptr) plan->put_first(*known);
    if (known == nullptr) file_.add(shape, plan->algorithm);
  }
  return *plan;
}

void Gemm::tune(GemmPlan& plan, const GemmShape& shape, const GemmOperands& operands, const GemmPlace& where) {
  constexpr size_t kFinalists = 5;
  announce_tuning(shape);
  CUDA_CHECK(cudaDeviceSynchronize());  // so that no other stream runs while candidates are timed
  plan.finalists = tuned_algorithms(plan, shape, operands, where);
  plan.finalists.resize(std::min(plan.finalists.size(), keeps_finalists_ ? kFinalists : 1));
  plan.algorithm = plan.finalists.front();
}

}  // namespace trireme::cuda
