// Every op of the cpu backend against the reference backend. The cases are in support/parity_*.h, by group of ops.
#include <limits>

#include "support/parity_attention.h"
#include "support/parity_fp8.h"
#include "support/parity_linear.h"
#include "support/parity_loss_optimizer.h"
#include "support/parity_residual.h"

namespace trireme {
namespace {

#define TRIREME_PARITY_TEST(Op)            \
  TEST(Parity, Op) {                       \
    Parity parity;                         \
    check(parity, Case<trireme::Op>{});    \
    EXPECT_GT(parity.cases(Op::kName), 0); \
  }
TRIREME_OPS(TRIREME_PARITY_TEST)
#undef TRIREME_PARITY_TEST

TEST(Parity, AttentionWithinDocuments) {
  Parity parity;
  check_documents(parity);
}

// A norm that is rebuilt from the stored sum, as recomputation does, gives the bits it gave when it was fused with the add.
TEST(Parity, NormRebuiltFromItsSumHasEqualBits) {
  for (const DType act : kActDTypes)
    for (const cpu::Isa isa : Parity::isas()) {
      HostTensors tensors;
      CpuBackend backend(1, isa);
      ResidualNormForward op;
      op.residual = tensors.uniform({17, 129}, act);
      op.branch = tensors.uniform({17, 129}, act);
      op.dropout = dropout(tensors, 17, 0.3f);
      op.weight = tensors.uniform({129}, act);
      op.sum = tensors.uniform({17, 129}, act);
      op.out = tensors.uniform({17, 129}, act);
      op.mean = tensors.uniform({17}, DType::f32);
      op.rstd = tensors.uniform({17}, DType::f32);
      backend.run(kCompute, op);

      ResidualNormForward again;
      again.residual = op.sum;
      again.weight = op.weight;
      again.out = tensors.uniform({17, 129}, act);
      again.mean = tensors.uniform({17}, DType::f32);
      again.rstd = tensors.uniform({17}, DType::f32);
      backend.run(kCompute, again);
      EXPECT_EQ(std::memcmp(again.out.tensor.data, op.out.tensor.data, static_cast<size_t>(op.out.tensor.bytes())), 0)
          << cpu::name_of(isa);
      EXPECT_EQ(std::memcmp(again.mean.data, op.mean.data, static_cast<size_t>(op.mean.bytes())), 0) << cpu::name_of(isa);
      EXPECT_EQ(std::memcmp(again.rstd.data, op.rstd.data, static_cast<size_t>(op.rstd.bytes())), 0) << cpu::name_of(isa);
    }
}

// The loss must show it, wherever in the row the bad logit is: this is how a step with broken values is found and left out.
TEST(Parity, LogitThatIsNotFiniteMakesTheLossNotFinite) {
  constexpr int64_t V = 2100;
  for (const cpu::Isa isa : Parity::isas())
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
      for (const int64_t column : {int64_t{0}, int64_t{15}, int64_t{1000}, V - 1}) {
        HostTensors tensors;
        CpuBackend backend(1, isa);
        const Tensor logits = tensors.uniform({1, V}, DType::f32), targets = tensors.integers({1}, 7, 8);
        const Tensor row_max = tensors.uniform({1}, DType::f32), row_sum = tensors.uniform({1}, DType::f32);
        const Tensor target_logit = tensors.uniform({1}, DType::f32), losses = tensors.uniform({1}, DType::f32);
        const Tensor scalars = tensors.uniform({kStepScalars}, DType::f64);
        logits.as<float>()[column] = bad;
        backend.run(kCompute, CrossEntropyStats{0, V, logits, targets, row_max, row_sum, target_logit});
        backend.run(kCompute,
                    CrossEntropyGrad{0, V, WriteGrad::no, targets, row_max, row_sum, target_logit, logits, losses, scalars});
        EXPECT_FALSE(std::isfinite(scalars.as<double>()[static_cast<int64_t>(StepScalar::loss_sum)])) << bad << " at " << column;
      }
}

// Logits of minus infinity, as masks put there, have probability 0 even when a row begins with thousands of them.
TEST(Parity, LogitsOfMinusInfinityHaveNoWeight) {
  constexpr int64_t V = 5000, kMasked = 4998;
  for (const cpu::Isa isa : Parity::isas()) {
    HostTensors tensors;
    CpuBackend backend(1, isa);
    const Tensor logits = tensors.uniform({1, V}, DType::f32), targets = tensors.integers({1}, 4999, 5000);
    const Tensor row_max = tensors.uniform({1}, DType::f32), row_sum = tensors.uniform({1}, DType::f32);
    const Tensor target_logit = tensors.uniform({1}, DType::f32);
    std::fill_n(logits.as<float>(), kMasked, -std::numeric_limits<float>::infinity());
    logits.as<float>()[kMasked] = logits.as<float>()[kMasked + 1] = 3;
    backend.run(kCompute, CrossEntropyStats{0, V, logits, targets, row_max, row_sum, target_logit});
    EXPECT_EQ(row_max.as<float>()[0], 3);
    EXPECT_EQ(row_sum.as<float>()[0], 2);
  }
}

TEST(CpuBackend, AllocatesAlignedMemoryOfAnySize) {
  CpuBackend backend(1);
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{2} << 20, int64_t{5000001}}) {
    const Memory memory = backend.allocate(bytes);
    EXPECT_EQ(memory.device, Device::host);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.block.get()) % Arena::kAlignment, 0u);
    std::memset(memory.block.get(), 1, static_cast<size_t>(bytes));
  }
  EXPECT_THROW(backend.allocate(int64_t{1} << 60), Failure);
}

TEST(CpuBackend, MovesBytesAndDescribesItself) {
  HostTensors tensors;
  CpuBackend backend(2, cpu::Isa::baseline);
  const float values[3] = {1, 2, 3};
  float back[3] = {};
  const Tensor tensor = tensors.uniform({3}, DType::f32);
  backend.upload(kCopy, values, tensor);
  backend.download(kCopy, tensor, back);
  EXPECT_EQ(std::memcmp(values, back, sizeof values), 0);
  EXPECT_EQ(backend.description(), "cpu: 2 threads, baseline");
}

}  // namespace
}  // namespace trireme
