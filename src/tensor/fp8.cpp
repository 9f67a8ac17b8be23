#include "tensor/fp8.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace trireme {
namespace {

struct Format {
  int mantissa_bits, least_exponent;  // of normal numbers
};

Format format_of(DType fp8) { return fp8 == DType::f8e4m3 ? Format{3, -6} : Format{2, -14}; }
constexpr uint8_t kNaN = 0x7f;

float decode(DType fp8, uint8_t bits) {
  const Format format = format_of(fp8);
  const int size = bits & 0x7f, code = size >> format.mantissa_bits, steps = size & ((1 << format.mantissa_bits) - 1);
  const float sign = (bits & 0x80) != 0 ? -1.0f : 1.0f;
  if (fp8 == DType::f8e4m3 ? size == 0x7f : size > 0x7c) return std::numeric_limits<float>::quiet_NaN();
  if (fp8 == DType::f8e5m2 && size == 0x7c) return sign * std::numeric_limits<float>::infinity();
  const int whole = code == 0 ? steps : steps + (1 << format.mantissa_bits);
  return sign * std::ldexp(static_cast<float>(whole), std::max(code, 1) - 1 + format.least_exponent - format.mantissa_bits);
}

using Numbers = std::array<float, 256>;
Numbers numbers_of(DType fp8) {
  Numbers numbers{};
  for (size_t bits = 0; bits < numbers.size(); ++bits) numbers[bits] = decode(fp8, static_cast<uint8_t>(bits));
  return numbers;
}

}  // namespace

uint8_t to_fp8(DType fp8, float value) {
  if (std::isnan(value)) return kNaN;
  const Format format = format_of(fp8);
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const double size = std::min<double>(std::abs(value), largest_of(fp8));
  const int exponent = size == 0 ? format.least_exponent : std::max(std::ilogb(size), format.least_exponent);
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, format.mantissa_bits - exponent)));
  // Subnormal numbers are their own codes, and rounding past the last number of a binade gives the code of the next binade's
  // first.
  return static_cast<uint8_t>(sign | (((exponent - format.least_exponent) << format.mantissa_bits) + steps));
}

float from_fp8(DType fp8, uint8_t bits) {
  static const std::array<Numbers, 2> kNumbers = {numbers_of(DType::f8e4m3), numbers_of(DType::f8e5m2)};
  return kNumbers[fp8 == DType::f8e4m3 ? 0 : 1][bits];
}

}  // namespace trireme
