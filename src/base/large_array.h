// A zeroed array on huge pages if the system has them. Random reads of a large table would otherwise cost a page walk almost
// every time.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

namespace trireme {

// Zeroed memory in whole huge pages, aligned to them.
class LargePages {
 public:
  LargePages() = default;
  explicit LargePages(size_t bytes);
  LargePages(LargePages&& other) noexcept
      : begin_(std::exchange(other.begin_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  LargePages& operator=(LargePages&& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~LargePages();

  void* begin() const { return begin_; }

 private:
  void* begin_ = nullptr;
  size_t bytes_ = 0;
};

template <class T>
class LargeArray {
  static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>);

 public:
  LargeArray() = default;
  explicit LargeArray(size_t size) : pages_(size * sizeof(T)), size_(size) {}

  T* data() const { return static_cast<T*>(pages_.begin()); }
  size_t size() const { return size_; }
  T& operator[](size_t i) const { return data()[i]; }
  std::span<T> span() const { return {data(), size_}; }

 private:
  LargePages pages_;
  size_t size_ = 0;
};

}  // namespace trireme
