#include "tensor/operand.h"

#include <gtest/gtest.h>

#include <array>
#include <type_traits>

namespace trireme {
namespace {

template <class T>
concept HasRows = requires(const T& t) {
  t.rows(0, 1);
};

// A part of the tensor has no FP8 copies. Code that wants one names the tensor, so that copies are not dropped unseen.
static_assert(HasRows<Tensor> && !HasRows<Operand>);
static_assert(std::is_convertible_v<Tensor, Operand>);
static_assert(!std::is_convertible_v<Operand, Tensor> && !std::is_constructible_v<Tensor, Operand>);

TEST(Operands, KeepTheirFp8CopiesWhenReshaped) {
  std::array<float, 24> values{};
  float scale = 2;
  const Operand operand({values.data(), DType::f32, {2, 3, 4}, Device::host},
                        {.scale = {&scale, DType::f32, {1}, Device::host}, .largest = 448}, Wide::scratch);
  const Operand matrix = operand.reshaped({6, 4});
  EXPECT_EQ(matrix.shape(), Shape({6, 4}));
  EXPECT_EQ(matrix.tensor.data, values.data());
  EXPECT_TRUE(matrix.fp8);
  EXPECT_EQ(matrix.fp8.scale.data, &scale);
  EXPECT_EQ(matrix.fp8.largest, 448);
  EXPECT_EQ(matrix.wide, Wide::scratch);
}

TEST(Operands, ArePresentWhereTheirTensorIs) {
  EXPECT_FALSE(Operand());
  const Operand plain = Tensor{.data = nullptr, .dtype = DType::bf16, .shape = {2, 3}};
  EXPECT_TRUE(plain);
  EXPECT_FALSE(plain.fp8);
  EXPECT_EQ(plain.count(), 6);
  EXPECT_EQ(plain.dtype(), DType::bf16);
}

}  // namespace
}  // namespace trireme
