// The element types of tensors.
#pragma once

#include <bit>
#include <cstdint>

namespace trireme {

enum class DType : uint8_t { f32, bf16, f64, i32, i64, u8, f8e4m3, f8e5m2 };

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
inline constexpr DType kDTypeOf<double> = DType::f64;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::i32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::i64;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::u8;

}  // namespace trireme
