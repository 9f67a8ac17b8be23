#include "tensor/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace trireme {
namespace {

constexpr DType kFormats[] = {DType::f8e4m3, DType::f8e5m2};

// All finite numbers of a format that are not negative, rising; their codes rise with them.
std::vector<float> numbers_of(DType fp8) {
  std::vector<float> numbers;
  for (int bits = 0; bits < 0x80 && std::isfinite(from_fp8(fp8, static_cast<uint8_t>(bits))); ++bits)
    numbers.push_back(from_fp8(fp8, static_cast<uint8_t>(bits)));
  return numbers;
}

TEST(Fp8, HasTheNumbersOfItsFormat) {
  EXPECT_EQ(numbers_of(DType::f8e4m3).size(), 127u);  // all but NaN
  EXPECT_EQ(numbers_of(DType::f8e5m2).size(), 124u);  // all but infinity and three NaNs
  EXPECT_EQ(from_fp8(DType::f8e4m3, 0x01), 0x1p-9f);
  EXPECT_EQ(from_fp8(DType::f8e4m3, 0x38), 1);
  EXPECT_EQ(from_fp8(DType::f8e4m3, 0xfe), -448);
  EXPECT_EQ(from_fp8(DType::f8e5m2, 0x01), 0x1p-16f);
  EXPECT_EQ(from_fp8(DType::f8e5m2, 0x3c), 1);
  EXPECT_EQ(from_fp8(DType::f8e5m2, 0x7b), 57344);
}

TEST(Fp8, RoundsToTheNearestAndTiesToEven) {
  for (const DType fp8 : kFormats) {
    const std::vector<float> numbers = numbers_of(fp8);
    for (size_t i = 0; i + 1 < numbers.size(); ++i) {
      const auto code = static_cast<uint8_t>(i);
      const float middle = (numbers[i] + numbers[i + 1]) / 2;
      EXPECT_LT(numbers[i], numbers[i + 1]);
      EXPECT_EQ(to_fp8(fp8, numbers[i]), code);
      EXPECT_EQ(to_fp8(fp8, -numbers[i]), code | 0x80);
      EXPECT_EQ(to_fp8(fp8, std::nextafter(middle, 0.0f)), code);
      EXPECT_EQ(to_fp8(fp8, std::nextafter(middle, 1e9f)), code + 1);
      EXPECT_EQ(to_fp8(fp8, middle), code % 2 == 0 ? code : code + 1);
    }
  }
}

TEST(Fp8, SaturatesAndKeepsNaN) {
  for (const DType fp8 : kFormats) {
    for (const float large : {largest_of(fp8), 1.01f * largest_of(fp8), 1e30f, std::numeric_limits<float>::infinity()}) {
      EXPECT_EQ(from_fp8(fp8, to_fp8(fp8, large)), largest_of(fp8));
      EXPECT_EQ(from_fp8(fp8, to_fp8(fp8, -large)), -largest_of(fp8));
    }
    EXPECT_TRUE(std::isnan(from_fp8(fp8, to_fp8(fp8, std::numeric_limits<float>::quiet_NaN()))));
  }
}

}  // namespace
}  // namespace trireme
