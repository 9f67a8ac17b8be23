#include "tensor/arena.h"

#include <algorithm>

namespace trireme {

Arena::Arena(std::string name, int64_t capacity, const Allocator& allocate)
    : name_(std::move(name)), capacity_(round_up(capacity, kAlignment)) {
  memory_ = allocate(capacity_);
}

Tensor Arena::take(const Shape& shape, DType dtype) {
  Tensor tensor{.data = nullptr, .dtype = dtype, .shape = shape, .device = memory_.device};
  if (capacity_ >= 0) {
    if (used_ + round_up(tensor.bytes(), kAlignment) > capacity_)
      check_failed(__FILE__, __LINE__,
                   fmt::format("arena {} of {} bytes is too small for {} more", name_, capacity_, tensor.bytes()));
    tensor.data = static_cast<char*>(memory_.block.get()) + used_;
  }
  used_ += round_up(tensor.bytes(), kAlignment);
  peak_ = std::max(peak_, used_);
  return tensor;
}

void Arena::rewind(int64_t mark) {
  CHECK(mark >= 0 && mark <= used_);
  used_ = mark;
}

}  // namespace trireme
