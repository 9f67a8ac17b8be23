// What identifies a matrix product: two that are equal here are done by the same kernel.
#pragma once

#include <compare>
#include <cstdint>

#include "base/error.h"
#include "tensor/dtype.h"

namespace trireme::cuda {

enum class Epilogue : uint8_t { none, bias, gelu_bias, d_gelu };
enum class Transposed : uint8_t { no, yes };
enum class Accumulate : uint8_t { no, yes };

// How products of FP8 are summed: fast keeps fewer bits between the instructions of the tensor cores.
enum class Sums : uint8_t { precise, fast };

// D = A B, with matrices as cuBLASLt sees them, column by column: A [m,k], B [k,n], D [m,n]; then the epilogue.
// Operands in FP8 have scales, and A is transposed and B is not.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  Transposed a_transposed = Transposed::no, b_transposed = Transposed::no;
  DType a = DType::bf16, b = DType::bf16, out = DType::bf16;
  Epilogue epilogue = Epilogue::none;
  Sums sums = Sums::precise;
  uint32_t alignment = 16;  // of all operands, in bytes
  auto operator<=>(const Product&) const = default;
};

// Blocks that make a product of so many rows and columns, each one tile of the size that the library's kernels have most often.
inline int64_t product_tiles(int64_t rows, int64_t columns) {
  constexpr int64_t kTileRows = 128, kTileColumns = 256;
  return ceil_div(rows, kTileRows) * ceil_div(columns, kTileColumns);
}

}  // namespace trireme::cuda
