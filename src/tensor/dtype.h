// The element types of tensors.
#pragma once

#include <bit>
#include <cstdint>

namespace trireme {

enum class DType : uint8_t { f32, bf16, f64, i32, i64, u8, f8e4m3, f8e5m2, f16 };

// Brain floating point: the upper half of an f32.
struct bf16 {
  uint16_t bits = 0;
};

inline float to_float(bf16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }
inline float to_float(float value) { return value; }

// Round to nearest, ties to even; NaN stays NaN.
inline bf16 to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  bits += 0x7fff + ((bits >> 16) & 1);
  return {static_cast<uint16_t>(bits >> 16)};
}

// IEEE half precision: 5 exponent bits, 10 of mantissa, up to 65504.
struct f16 {
  uint16_t bits = 0;
};

// Exact.
inline float to_float(f16 value) {
  constexpr uint32_t kExponent = 0x7c00u << 13;
  uint32_t bits = static_cast<uint32_t>(value.bits & 0x7fff) << 13;
  const uint32_t exponent = bits & kExponent;
  bits += (127u - 15u) << 23;
  float magnitude = std::bit_cast<float>(bits);
  if (exponent == kExponent) magnitude = std::bit_cast<float>(bits + ((128u - 16u) << 23));  // infinity, NaN
  if (exponent == 0) magnitude = std::bit_cast<float>(bits + (1u << 23)) - 0x1p-14f;         // zero, denormal
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | static_cast<uint32_t>(value.bits & 0x8000) << 16);
}

// Rounds to nearest, ties to even; what is too large becomes infinity; NaN stays NaN.
inline f16 to_f16(float value) {
  constexpr float kLeastNormal = 0x1p-14f, kRoundsDenormals = 0.5f;  // the last bit of 0.5 is worth that of a denormal
  const uint32_t signed_bits = std::bit_cast<uint32_t>(value), sign = signed_bits >> 16 & 0x8000;
  uint32_t bits = signed_bits & 0x7fffffff;
  const float magnitude = std::bit_cast<float>(bits);
  if (bits > 0x7f800000)
    bits = 0x7e00;
  else if (magnitude >= 65536.0f)
    bits = 0x7c00;
  else if (magnitude < kLeastNormal)
    bits = std::bit_cast<uint32_t>(magnitude + kRoundsDenormals) - std::bit_cast<uint32_t>(kRoundsDenormals);
  else
    bits = (bits - ((127u - 15u) << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
  return {static_cast<uint16_t>(sign | bits)};
}

int64_t size_of(DType dtype);
const char* name_of(DType dtype);  // "f32", "bf16", ...

template <class T>
inline constexpr DType kDTypeOf = [] {
  static_assert(sizeof(T) == 0, "no dtype for this type");
  return DType::f32;
}();
template <>
inline constexpr DType kDTypeOf<float> = DType::f32;
template <>
inline constexpr DType kDTypeOf<bf16> = DType::bf16;
template <>
inline constexpr DType kDTypeOf<f16> = DType::f16;
template <>
inline constexpr DType kDTypeOf<double> = DType::f64;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::i32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::i64;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::u8;

}  // namespace trireme
