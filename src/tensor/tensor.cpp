#include "tensor/tensor.h"

#include <fmt/ranges.h>

namespace trireme {

int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::u8:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return 1;
  }
  CHECK_NEVER("unknown dtype");
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
    case DType::f8e4m3:
      return "f8e4m3";
    case DType::f8e5m2:
      return "f8e5m2";
    case DType::f16:
      return "f16";
  }
  return "unknown";
}

Shape::Shape(std::span<const int64_t> dims) : rank_(narrow<int>(dims.size())) {
  CHECK(rank_ <= kMaxRank);
  for (size_t i = 0; i < dims.size(); ++i) {
    CHECK(dims[i] >= 0);
    dims_[i] = dims[i];
  }
}

int64_t Shape::count() const {
  int64_t product = 1;
  for (const int64_t dim : dims()) product *= dim;
  return product;
}

std::string Shape::text() const { return fmt::format("[{}]", fmt::join(dims(), ",")); }

Tensor Tensor::reshaped(const Shape& to) const {
  CHECK_EQ(to.count(), count());
  Tensor result = *this;
  result.shape = to;
  return result;
}

Tensor Tensor::rows(int64_t begin, int64_t row_count) const {
  CHECK(shape.rank() > 0 && begin >= 0 && begin + row_count <= shape[0]);
  std::array<int64_t, Shape::kMaxRank> dims{};
  for (int i = 0; i < shape.rank(); ++i) dims[static_cast<size_t>(i)] = shape[i];
  const int64_t row_bytes = shape[0] == 0 ? 0 : bytes() / shape[0];
  dims[0] = row_count;
  Tensor result = *this;
  result.shape = Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(shape.rank())));
  if (data != nullptr) result.data = static_cast<char*>(data) + begin * row_bytes;
  return result;
}

Tensor Tensor::flat_range(int64_t begin, const Shape& to) const { return rows(begin, to.count()).reshaped(to); }

}  // namespace trireme
