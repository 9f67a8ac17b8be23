// The vectors that all kernels are made of, against the standard library one element at a time.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tensor/dtype.h"

#define TRIREME_ISA test_of_simd
#include "backend/cpu/kernels/gelu.h"
#include "backend/cpu/kernels/pointwise_chunks.h"

namespace trireme::cpu::test_of_simd {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Calls f(vector) for x = low, low + step, ... and check(x, lane of the result).
template <class Function, class Check>
void sweep(double low, double high, double step, Function&& f, Check&& check_lane) {
  for (double x = low; x < high; x += 16 * step) {
    f32x16 v{};
    for (int i = 0; i < 16; ++i) v[i] = static_cast<float>(x + i * step);
    const f32x16 y = f(v);
    for (int i = 0; i < 16; ++i) check_lane(static_cast<double>(v[i]), static_cast<double>(y[i]));
  }
}

TEST(Simd, ExpIsWithinTwoUnits) {
  double worst = 0;
  sweep(
      -87, 88, 0.00131, [](f32x16 x) { return exp(x); },
      [&](double x, double y) { worst = std::max(worst, std::abs(y / std::exp(x) - 1)); });
  EXPECT_LE(worst, 2 * 0x1p-23);  // a unit is at most 2^-23 of the value
}

TEST(Simd, ExpWithoutOverflowIsWithinTwoUnits) {
  double worst = 0;
  sweep(
      -87, 80, 0.00131, [](f32x16 x) { return exp_without_overflow(x); },
      [&](double x, double y) { worst = std::max(worst, std::abs(y / std::exp(x) - 1)); });
  EXPECT_LE(worst, 2 * 0x1p-23);
  EXPECT_EQ(exp_without_overflow(splat(-kInfinity))[0], 0);
  EXPECT_EQ(exp_without_overflow(splat(-1000))[0], 0);
  EXPECT_TRUE(std::isnan(exp_without_overflow(splat(kNan))[0]));
}

TEST(Simd, ExpAtTheEndsOfItsRange) {
  EXPECT_EQ(exp(splat(0))[0], 1);
  EXPECT_EQ(exp(splat(-kInfinity))[0], 0);
  EXPECT_EQ(exp(splat(-1000))[0], 0);
  EXPECT_EQ(exp(splat(kInfinity))[0], kInfinity);
  EXPECT_EQ(exp(splat(89))[0], kInfinity);
  EXPECT_LT(exp(splat(88.7f))[0], kInfinity);
  EXPECT_TRUE(std::isnan(exp(splat(kNan))[0]));
}

// The distribution function inside is within 2e-7 of the exact one, and its factor is x; half a unit of the result for rounding.
TEST(Simd, GeluIsClose) {
  const auto expect_close = [](double x, double y, double exact) {
    EXPECT_NEAR(y, exact, 2e-7 * std::abs(x) + 0x1p-23 * std::abs(exact) + 1e-30) << x;
  };
  sweep(
      -12, 12, 0.0037, [](f32x16 x) { return gelu_tanh(x); },
      [&](double x, double y) {
        expect_close(x, y, 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))));
      });
  sweep(
      -12, 12, 0.0037, [](f32x16 x) { return gelu_erf(x); },
      [&](double x, double y) { expect_close(x, y, 0.5 * x * std::erfc(-x / std::sqrt(2.0))); });
}

TEST(Simd, RoundsToBf16AsScalarsDo) {
  const float values[16] = {0,      -0.0f, 1,        1.00390625f, 1.01171875f, 1.0039063f, -1.00390625f,  3.3895314e38f,
                            1e-40f, 0.1f,  65280.5f, kInfinity,   -kInfinity,  kNan,       3.3961776e38f, -2.7182817f};
  uint16_t rounded[16];
  store(rounded, load(values));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(rounded[i], to_bf16(values[i]).bits) << values[i];
  const f32x16 seen = rounded_to(rounded, load(values)), stored = load(rounded);
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(seen[i] == stored[i] || (std::isnan(seen[i]) && std::isnan(stored[i]))) << values[i];
}

TEST(Simd, PartsReadAndWriteOnlyTheirElements) {
  float from[16], to[16];
  for (int64_t count = 0; count < 16; ++count) {
    for (int i = 0; i < 16; ++i) from[i] = static_cast<float>(i + 1), to[i] = -1;
    const f32x16 v = load_part(from, count), kept = only(splat(5), FirstLanes{count});
    store_part(to, splat(7), count);
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(v[i], i < count ? from[i] : 0);
      EXPECT_EQ(kept[i], i < count ? 5 : 0);
      EXPECT_EQ(to[i], i < count ? 7 : -1);
    }
  }
}

TEST(Simd, ChunksCoverARowOnce) {
  for (const int64_t count : {0, 1, 15, 16, 17, 40}) {
    float row[48] = {};
    for_each_chunk(count, [&](int64_t c, auto lanes) { store(row + c, load(row + c, lanes) + 1, lanes); });
    for (int64_t c = 0; c < 48; ++c) EXPECT_EQ(row[c], c < count ? 1 : 0) << count;
  }
}

TEST(Simd, ReductionsSeeEveryLane) {
  for (int lane = 0; lane < 16; ++lane) {
    f32x16 v{};
    v[lane] = 3;
    EXPECT_EQ(reduce_sum(v), 3);
    EXPECT_EQ(reduce_max(v), 3);
  }
  f32x16 v;
  for (int i = 0; i < 16; ++i) v[i] = static_cast<float>(-i - 1);
  EXPECT_EQ(reduce_sum(v), -136);
  EXPECT_EQ(reduce_max(v), -1);
}

}  // namespace
}  // namespace trireme::cpu::test_of_simd
