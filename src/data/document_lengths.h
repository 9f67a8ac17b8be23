// The number of tokens of each document, read in place: from memory, or from the unaligned int32 array of a mapped .idx. A small
// view, passed by value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace trireme {

class DocumentLengths {
 public:
  DocumentLengths(std::span<const int64_t> lengths)  // NOLINT: implicit on purpose
      : at_(std::as_bytes(lengths).data()), count_(std::ssize(lengths)), width_(Width::int64) {}
  DocumentLengths(const std::vector<int64_t>& lengths) : DocumentLengths(std::span(lengths)) {}  // NOLINT
  static DocumentLengths of_int32(const std::byte* at, int64_t count) { return {at, count, Width::int32}; }

  int64_t size() const { return count_; }
  int64_t operator[](int64_t document) const {
    if (width_ == Width::int32) return load<int32_t>(document);
    return load<int64_t>(document);
  }
  void prefetch(int64_t document) const { __builtin_prefetch(place_of(document)); }
  const std::byte* place_of(int64_t document) const { return at_ + document * (width_ == Width::int32 ? 4 : 8); }

 private:
  enum class Width : uint8_t { int32, int64 };
  DocumentLengths(const std::byte* at, int64_t count, Width width) : at_(at), count_(count), width_(width) {}

  template <class T>
  T load(int64_t document) const {
    T value;
    std::memcpy(&value, at_ + document * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }

  const std::byte* at_;
  int64_t count_;
  Width width_;
};

}  // namespace trireme
