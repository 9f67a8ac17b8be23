// Every op of the CUDA backend against the reference backend, on the same cases as the cpu backend. Runs where a GPU is.
#include "backend/cuda_module.h"
#include "support/parity_attention.h"
#include "support/parity_fp8.h"
#include "support/parity_linear.h"
#include "support/parity_loss_optimizer.h"
#include "support/parity_residual.h"

namespace trireme {
namespace {

// cuBLASLt adds a bias to a product that some of its kernels have rounded already: one rounding more. Its GELU and the slope of
// that are made with the GPU's tanh, which is within 2^-11; the slope then is within 2^-10, times products up to about 2.
Tolerance relax(std::string_view op, const std::string&, Tolerance tolerance) {
  if (op == LinearForward::kName) tolerance.roundings += 1;
  if (op == LinearForward::kName || op == LinearInputGrad::kName) tolerance.carried += 0.25;
  return tolerance;
}

std::vector<Contestant> cuda_contestants() {
  std::vector<Contestant> made;
  made.push_back({"cuda", "cuda", make_cuda_backend(), Device::cuda, relax});
  return made;
}

#define TRIREME_PARITY_TEST(Op)                                                                        \
  TEST(CudaParity, Op) {                                                                               \
    if (cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU, or no CUDA backend in this build"; \
    Parity parity(cuda_contestants());                                                                 \
    check(parity, Case<trireme::Op>{});                                                                \
    EXPECT_GT(parity.cases(Op::kName), 0);                                                             \
  }
TRIREME_OPS(TRIREME_PARITY_TEST)
#undef TRIREME_PARITY_TEST

}  // namespace
}  // namespace trireme
