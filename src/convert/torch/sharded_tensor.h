// One tensor of a model whose parts lie in the files of several ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "convert/torch/torch_tensor.h"
#include "train/checkpoint/slice.h"

namespace trireme {

struct ShardedTensor {
  struct Piece {
    Shape offset, extent;               // of a rectangle of the tensor
    std::function<TorchTensor()> open;  // has the shape `extent`
  };
  Shape shape;
  std::vector<Piece> pieces;

  // Reads the rectangle at `offset` as f32. UserError, naming the tensor, unless the pieces cover it, or if an element is NaN or
  // infinite.
  void read(const std::string& name, const Shape& offset, const Shape& extent, std::span<float> to) const;
};

}  // namespace trireme
