// A queue in one block of memory that grows when full and never shrinks, so that a steady state allocates nothing.
#pragma once

#include <utility>
#include <vector>

#include "base/error.h"

namespace trireme {

template <class T>
class Ring {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  T& front() {
    CHECK(count_ > 0);
    return slots_[first_];
  }
  const T& front() const {
    CHECK(count_ > 0);
    return slots_[first_];
  }
  const T& operator[](size_t i) const {  // counted from the front
    CHECK(i < count_);
    return slots_[(first_ + i) % slots_.size()];
  }
  T& push_back(T value) {
    if (count_ == slots_.size()) grow();
    T& slot = slots_[(first_ + count_) % slots_.size()];
    slot = std::move(value);
    ++count_;
    return slot;
  }
  void pop_front() {
    CHECK(count_ > 0);
    first_ = (first_ + 1) % slots_.size();
    --count_;
  }

 private:
  void grow() {
    std::vector<T> larger(slots_.empty() ? 16 : 2 * slots_.size());
    for (size_t i = 0; i < count_; ++i) larger[i] = std::move(slots_[(first_ + i) % slots_.size()]);
    slots_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> slots_;
  size_t first_ = 0, count_ = 0;
};

}  // namespace trireme
