// An arena owns one kind of memory (parameters, gradients, masters, states, activations, scratch) as a single allocation. The
// same code first runs with a measuring arena, which only counts, and then with one that hands out memory.
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
  static constexpr int64_t kAlignment = 256;  // bytes: at least a cache line, and the alignment of CUDA's allocator

  explicit Arena(std::string name) : name_(std::move(name)) {}  // measures: its tensors have no storage
  Arena(std::string name, int64_t capacity, const Allocator& allocate);

  // Returns the next tensor of this shape and dtype, uninitialised.
  Tensor take(const Shape& shape, DType dtype);
  Tensor take(const char*, const Shape& shape, DType dtype) override { return take(shape, dtype); }

  // Frees everything taken since used() was `mark`, for tensors whose lifetimes do not overlap with later ones.
  void rewind(int64_t mark);

  const std::string& name() const { return name_; }
  int64_t used() const { return used_; }
  int64_t peak() const { return peak_; }  // the capacity that a real arena needs

 private:
  std::string name_;
  Memory memory_;
  int64_t capacity_ = -1;  // -1: measuring
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

}  // namespace trireme
