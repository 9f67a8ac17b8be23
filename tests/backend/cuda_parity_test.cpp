// Every op of the CUDA backend against the reference backend, on the same cases as the cpu backend. Runs where a GPU is.
#include "support/gpu.h"
#include "support/parity_attention.h"
#include "support/parity_fp8.h"
#include "support/parity_linear.h"
#include "support/parity_loss_optimizer.h"
#include "support/parity_residual.h"

namespace trireme {
namespace {

// Some kernels of cuBLASLt round a product before they add the bias: half a unit, 2^-9, of products up to 2. Its GELU and the
// slope of that are made with the GPU's tanh, which is within 2^-11; the slope then is within 2^-10, times products up to 4. Both
// are 2^-8.
Tolerance relax(std::string_view op, const std::string&, Tolerance tolerance) {
  if (op == LinearForward::kName || op == LinearInputGrad::kName) tolerance.carried += 0.5;
  return tolerance;
}

std::vector<Contestant> cuda_contestants() {
  std::vector<Contestant> made;
  made.push_back({"cuda", "cuda", make_cuda_backend(), Device::cuda, relax});
  return made;
}

#define TRIREME_PARITY_TEST(Op)            \
  TEST(CudaParity, Op) {                   \
    SKIP_WITHOUT_GPU();                    \
    Parity parity(cuda_contestants());     \
    check(parity, Case<trireme::Op>{});    \
    EXPECT_GT(parity.cases(Op::kName), 0); \
  }
TRIREME_OPS(TRIREME_PARITY_TEST)
#undef TRIREME_PARITY_TEST

TEST(CudaParity, AttentionWithinDocuments) {
  SKIP_WITHOUT_GPU();
  Parity parity(cuda_contestants());
  check_documents(parity);
}

}  // namespace
}  // namespace trireme
