// An arena owns one kind of memory (parameters, gradients, masters, states, activations, scratch) as one allocation that is made
// once. The same code first runs with a measuring arena, which only counts, and then with one that hands out the memory.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tensor/tensor_source.h"

namespace trireme {

// Where an arena's memory comes from: a backend's allocator.
struct Memory {
  Device device = Device::none;
  std::shared_ptr<void> block;
};
using Allocator = std::function<Memory(int64_t bytes)>;

class Arena final : public TensorSource {
 public:
  static constexpr int64_t kAlignment = 256;  // bytes: a cache line and more, and what CUDA's allocator gives

  explicit Arena(std::string name) : name_(std::move(name)) {}  // measures: its tensors have no storage
  Arena(std::string name, int64_t capacity, const Allocator& allocate);

  // The next `shape` of `dtype`, not cleared.
  Tensor take(const Shape& shape, DType dtype);
  Tensor take(const char*, const Shape& shape, DType dtype) override { return take(shape, dtype); }

  // Gives back everything taken since used() was `mark`, for memory whose lives do not overlap.
  void rewind(int64_t mark);

  const std::string& name() const { return name_; }
  int64_t used() const { return used_; }
  int64_t peak() const { return peak_; }  // what a real arena needs as capacity

 private:
  std::string name_;
  Memory memory_;
  int64_t capacity_ = -1;  // -1: measuring
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

}  // namespace trireme
