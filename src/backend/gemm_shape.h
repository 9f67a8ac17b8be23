// The key of a GEMM: equal keys use the same algorithm.
#pragma once

#include <compare>
#include <cstdint>

#include "base/error.h"
#include "tensor/dtype.h"

namespace trireme::cuda {

enum class Epilogue : uint8_t { none, bias, gelu_bias, d_gelu };
enum class Transposed : uint8_t { no, yes };
enum class Accumulate : uint8_t { no, yes };

// How FP8 GEMMs accumulate: fast keeps fewer bits between tensor-core instructions.
enum class Sums : uint8_t { precise, fast };

// The GEMM D = A B in cuBLASLt's column-major layout: A [m,k], B [k,n], D [m,n]; then the epilogue. FP8 operands have scales, and
// require A transposed and B not.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  Transposed a_transposed = Transposed::no, b_transposed = Transposed::no;
  DType a = DType::bf16, b = DType::bf16, out = DType::bf16;
  Epilogue epilogue = Epilogue::none;
  Sums sums = Sums::precise;
  uint32_t alignment = 16;                             // smallest alignment of all operands, in bytes
  auto operator<=>(const GemmShape&) const = default;  // NOLINT(modernize-use-nullptr): false positive in generated code
};

// The number of thread blocks of a GEMM with so many rows and columns, one per tile of the library's most common tile size.
inline int64_t gemm_tiles(int64_t rows, int64_t columns) {
  constexpr int64_t kTileRows = 128, kTileColumns = 256;
  return ceil_div(rows, kTileRows) * ceil_div(columns, kTileColumns);
}

}  // namespace trireme::cuda
