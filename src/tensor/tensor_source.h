// Where code takes its tensors from: an arena, or the memory of a training step, which was planned from their lifetimes.
#pragma once

#include "tensor/tensor.h"

namespace trireme {

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // A tensor that is not cleared. `name` must live as long as the program. There is no call to give it back: a step's memory
  // knows the last use from the recording, an arena is rewound.
  virtual Tensor take(const char* name, const Shape& shape, DType dtype) = 0;
};

}  // namespace trireme
