// Half precision: every number of it, and every rounding to it, on the host and with the vectors of each instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "support/parity.h"

namespace trireme {
namespace {

constexpr uint32_t kNumbers = 1 << 16;

bool is_nan(uint32_t bits) { return (bits & 0x7fff) > 0x7c00; }

// By the definition: (-1)^s 2^(e-15) (1 + m/1024), and 2^-14 m/1024 where e is 0.
double value_of(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double mantissa = (bits & 1023) / 1024.0, sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  return exponent == 0 ? sign * std::ldexp(mantissa, -14) : sign * std::ldexp(1 + mantissa, exponent - 15);
}

TEST(F16, EveryNumberIsWhatItsBitsSay) {
  for (uint32_t bits = 0; bits < kNumbers; ++bits) {
    const float value = to_float(f16{static_cast<uint16_t>(bits)});
    if (is_nan(bits)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), value_of(bits)) << bits;
    ASSERT_EQ(to_f16(value).bits, bits) << value;
  }
}

// All numbers, what lies halfway between neighbours, and the floats next to that.
std::vector<float> to_be_rounded() {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double next = bits + 1 == 0x7c00 ? 65536 : value_of(bits + 1);
    const auto half = static_cast<float>((value_of(bits) + next) / 2);
    for (const float value : {static_cast<float>(value_of(bits)), std::nextafter(half, 0.0f), half, std::nextafter(half, 1e9f)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  for (const float value : {1e5f, 3e38f, 1e-10f, 1e-40f, std::numeric_limits<float>::infinity()})
    values.push_back(value), values.push_back(-value);
  return values;
}

// The nearest number, and of two as near the one with an even last bit.
uint16_t rounded(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(static_cast<double>(value));
  uint32_t below = 0, above = 0x7c00;  // infinity counts as 65536
  const auto number = [](uint32_t bits) { return bits == 0x7c00 ? 65536.0 : value_of(bits); };
  if (magnitude >= 65536) return sign | 0x7c00;
  while (above - below > 1) {
    const uint32_t middle = (below + above) / 2;
    (number(middle) <= magnitude ? below : above) = middle;
  }
  const double down = magnitude - number(below), up = number(above) - magnitude;
  const uint32_t nearest = down < up ? below : up < down ? above : below % 2 == 0 ? below : above;
  return static_cast<uint16_t>(sign | nearest);
}

TEST(F16, RoundsToNearestAndTiesToEven) {
  for (const float value : to_be_rounded()) ASSERT_EQ(to_f16(value).bits, rounded(value)) << value;
  EXPECT_TRUE(std::isnan(to_float(to_f16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(F16, VectorsOfEveryInstructionSetRoundAlike) {
  std::vector<float> values = to_be_rounded();
  values.resize(values.size() / 16 * 16 + 21, 0.3f);  // with a rest
  values[5] = std::numeric_limits<float>::quiet_NaN();
  std::vector<f16> narrow_values(values.size()), numbers(kNumbers);
  std::vector<float> wide(kNumbers);
  for (uint32_t bits = 0; bits < kNumbers; ++bits) numbers[bits] = {static_cast<uint16_t>(bits)};
  const auto view = [](auto& of, DType dtype) { return Tensor{of.data(), dtype, {std::ssize(of)}, Device::host}; };
  for (const cpu::Isa isa : Parity::isas()) {
    SCOPED_TRACE(cpu::name_of(isa));
    CpuBackend backend(2, isa);
    backend.run(kCompute, Copy{.from = view(values, DType::f32), .to = view(narrow_values, DType::f16)});
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i]))
        EXPECT_TRUE(std::isnan(to_float(narrow_values[i])));
      else
        ASSERT_EQ(narrow_values[i].bits, to_f16(values[i]).bits) << values[i];
    }
    backend.run(kCompute, Copy{.from = view(numbers, DType::f16), .to = view(wide, DType::f32)});
    for (uint32_t bits = 0; bits < kNumbers; ++bits)
      if (is_nan(bits))
        EXPECT_TRUE(std::isnan(wide[bits]));
      else
        ASSERT_EQ(wide[bits], to_float(numbers[bits])) << bits;
  }
}

}  // namespace
}  // namespace trireme
