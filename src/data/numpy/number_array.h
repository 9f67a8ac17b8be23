// Integer arrays of one of several widths, as stored in .npy files. A NumberArray is a small view that reads any width as int64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace trireme {

enum class NumberType : uint8_t { uint8, int16, uint16, int32, uint32, int64 };

inline constexpr int64_t size_of(NumberType type) {
  switch (type) {
    case NumberType::uint8:
      return 1;
    case NumberType::int16:
    case NumberType::uint16:
      return 2;
    case NumberType::int32:
    case NumberType::uint32:
      return 4;
    case NumberType::int64:
      return 8;
  }
  return 0;
}

class NumberArray {
 public:
  NumberArray() = default;
  NumberArray(const std::byte* data, NumberType type, int64_t count) : data_(data), count_(count), type_(type) {}

  int64_t size() const { return count_; }
  NumberType type() const { return type_; }
  const std::byte* data() const { return data_; }

  int64_t operator[](int64_t index) const {
    switch (type_) {
      case NumberType::uint8:
        return load<uint8_t>(index);
      case NumberType::int16:
        return load<int16_t>(index);
      case NumberType::uint16:
        return load<uint16_t>(index);
      case NumberType::int32:
        return load<int32_t>(index);
      case NumberType::uint32:
        return load<uint32_t>(index);
      case NumberType::int64:
        return load<int64_t>(index);
    }
    return 0;
  }

 private:
  template <class T>
  T load(int64_t index) const {
    T value;
    std::memcpy(&value, data_ + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }

  const std::byte* data_ = nullptr;
  int64_t count_ = 0;
  NumberType type_ = NumberType::int32;
};

}  // namespace trireme
