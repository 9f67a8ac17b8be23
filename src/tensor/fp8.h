// FP8 numbers on the host. e4m3: 4 exponent bits, 3 mantissa bits, up to 448, NaN but no infinity. e5m2: 5 and 2 bits, up to
// 57344.
#pragma once

#include "tensor/dtype.h"

namespace trireme {

inline bool is_fp8(DType dtype) { return dtype == DType::f8e4m3 || dtype == DType::f8e5m2; }
inline float largest_of(DType fp8) { return fp8 == DType::f8e4m3 ? 448.0f : 57344.0f; }

// Rounds to nearest, ties to even. Values that are too large, infinity included, become the largest number; NaN stays NaN.
uint8_t to_fp8(DType fp8, float value);
float from_fp8(DType fp8, uint8_t bits);

}  // namespace trireme
