// Large outputs of linear layers go past the caches. The same rows in pieces too small for that must have equal bits.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "support/host_tensors.h"

namespace trireme {
namespace {

constexpr int64_t kRows = 4160, kInputs = 6, kOutputs = 2048, kPieces = 5;

template <class Op>
void run(CpuBackend& backend, const Op& op) {
  const Memory scratch = backend.allocate(backend.scratch_bytes(op));
  backend.set_scratch(kCompute, {scratch.block.get(), DType::u8, {backend.scratch_bytes(op)}, Device::host});
  backend.run(kCompute, op);
}

void expect_equal_bits(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())), 0);
}

class LinearStreamingTest : public testing::TestWithParam<DType> {
 protected:
  Tensor tensor(const Shape& shape) {
    memory_.push_back(backend_.allocate(shape.count() * size_of(GetParam())));  // arenas are aligned the same way
    const Tensor result{memory_.back().block.get(), GetParam(), shape, Device::host};
    const Tensor values = values_.uniform(shape, GetParam());
    std::memcpy(result.data, values.data, static_cast<size_t>(values.bytes()));
    return result;
  }

  CpuBackend backend_{2};
  HostTensors values_;
  std::vector<Memory> memory_;
};

TEST_P(LinearStreamingTest, Forward) {
  const Tensor x = tensor({kRows, kInputs}), weight = tensor({kOutputs, kInputs}), bias = tensor({kOutputs});
  const Tensor pre = tensor({kRows, kOutputs}), out = tensor({kRows, kOutputs});
  const Tensor pre_pieces = tensor({kRows, kOutputs}), out_pieces = tensor({kRows, kOutputs});
  const auto op = [&](const Tensor& rows, const Tensor& to_pre, const Tensor& to_out) {
    return LinearForward{
        .x = rows, .weight = weight, .bias = bias, .activation = Activation::gelu_tanh, .pre = to_pre, .out = to_out};
  };
  run(backend_, op(x, pre, out));
  const int64_t piece = kRows / kPieces;
  for (int64_t row = 0; row < kRows; row += piece)
    run(backend_, op(x.rows(row, piece), pre_pieces.rows(row, piece), out_pieces.rows(row, piece)));
  expect_equal_bits(pre, pre_pieces);
  expect_equal_bits(out, out_pieces);
}

TEST_P(LinearStreamingTest, InputGrad) {
  const Tensor d_out = tensor({kRows, kInputs}), weight = tensor({kInputs, kOutputs}), pre = tensor({kRows, kOutputs});
  const Tensor d_x = tensor({kRows, kOutputs}), d_x_pieces = tensor({kRows, kOutputs});
  const auto op = [&](const Tensor& rows, const Tensor& of_pre, const Tensor& to) {
    return LinearInputGrad{.d_out = rows, .weight = weight, .activation = Activation::gelu_tanh, .pre = of_pre, .d_x = to};
  };
  run(backend_, op(d_out, pre, d_x));
  const int64_t piece = kRows / kPieces;
  for (int64_t row = 0; row < kRows; row += piece)
    run(backend_, op(d_out.rows(row, piece), pre.rows(row, piece), d_x_pieces.rows(row, piece)));
  expect_equal_bits(d_x, d_x_pieces);
}

INSTANTIATE_TEST_SUITE_P(DTypes, LinearStreamingTest, testing::Values(DType::f32, DType::bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace trireme
