// Where code takes its tensors from: an arena, or the memory of a training step, which is planned from their lifetimes.
#pragma once

#include "tensor/tensor.h"

namespace trireme {

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // Returns an uninitialised tensor. `name` must live as long as the program. No call returns the memory: a step's memory is
  // planned from the last use of each tensor, and an arena is rewound.
  virtual Tensor take(const char* name, const Shape& shape, DType dtype) = 0;
};

}  // namespace trireme
