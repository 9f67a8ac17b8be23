#include "backend/cuda/gemm.h"

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
  constexpr double kLong = 1e10;  // multiplications
  if (announced_ || static_cast<double>(product.m) * static_cast<double>(product.n) * static_cast<double>(product.k) < kLong)
    return;
  announced_ = true;
  fmt::print(stderr, "tuning  products for {}: the first step takes up to a minute longer, once for a model\n", device_);
}

GemmPlan& Gemm::plan_for(const Product& product, const ProductOperands& operands, const GemmPlace& where) {
  std::unique_ptr<GemmPlan>& plan = plans_[product];
  if (!plan) {
    plan = std::make_unique<GemmPlan>(product);
    if (const cublasLtMatmulAlgo_t* known = file_.find(product)) {
      plan->algorithm = *known;
    } else {
      announce_tuning(product);
      plan->algorithm = tuned_algorithm(*plan, product, operands, where);
      file_.add(product, plan->algorithm);
    }
  }
  return *plan;
}

}  // namespace trireme::cuda
