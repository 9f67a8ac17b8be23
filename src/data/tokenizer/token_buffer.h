// A growing array of tokens. clear() keeps the memory, and growing does not zero it: a fresh page costs more than the tokens on
// it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace trireme {

class TokenBuffer {
 public:
  static constexpr size_t kSlack = 16;  // entries after the requested room that may be overwritten

  size_t size() const { return size_; }
  std::span<const int32_t> tokens() const { return {data_.get(), size_}; }
  void clear() { size_ = 0; }

  void push_back(int32_t token) { *room(1) = token, ++size_; }
  void append(std::span<const int32_t> tokens) {
    if (!tokens.empty()) std::memcpy(room(tokens.size()), tokens.data(), tokens.size_bytes());
    size_ += tokens.size();
  }

  // Returns where the next tokens go, with room for `more` of them plus kSlack entries that do not count. end_at sets the new
  // end.
  int32_t* room(size_t more) {
    if (size_ + more + kSlack > capacity_) grow(more);
    return data_.get() + size_;
  }
  void end_at(const int32_t* end) { size_ = static_cast<size_t>(end - data_.get()); }

 private:
  void grow(size_t more) {
    const size_t capacity = std::max(2 * capacity_, size_ + more + kSlack);
    std::unique_ptr<int32_t[]> data(new int32_t[capacity]);
    if (size_ != 0) std::memcpy(data.get(), data_.get(), size_ * sizeof(int32_t));
    data_ = std::move(data);
    capacity_ = capacity;
  }

  std::unique_ptr<int32_t[]> data_;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace trireme
