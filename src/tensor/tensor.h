// A tensor is a small view of memory that an arena owns: pointer, dtype, shape, device. Always contiguous,
// last dimension fastest.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>

#include "base/error.h"
#include "tensor/dtype.h"

namespace trireme {

enum class Device : uint8_t { none, host, cuda };  // none: a shape without storage, as the cost backend uses

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i < 0 ? i + rank_ : i)]; }
  int64_t count() const;  // number of elements
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  bool operator==(const Shape&) const = default;
  std::string text() const;  // "[4,128,768]"

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

struct Tensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Device device = Device::none;

  // An absent optional operand has no dimensions.
  explicit operator bool() const { return shape.rank() > 0; }
  int64_t count() const { return shape.rank() == 0 ? 0 : shape.count(); }
  int64_t bytes() const { return count() * size_of(dtype); }

  template <class T>
  T* as() const {
    CHECK(dtype == kDTypeOf<T>);
    return static_cast<T*>(data);
  }
  template <class T>
  std::span<T> span() const {
    return {as<T>(), static_cast<size_t>(count())};
  }

  Tensor reshaped(const Shape& to) const;
  Tensor rows(int64_t begin, int64_t count) const;          // [begin, begin + count) of the first dimension
  Tensor flat_range(int64_t begin, const Shape& to) const;  // elements from `begin` of a rank-1 tensor, with shape `to`
};

}  // namespace trireme

template <>
struct fmt::formatter<trireme::Shape> : fmt::formatter<std::string> {
  auto format(const trireme::Shape& shape, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(shape.text(), context);
  }
};
