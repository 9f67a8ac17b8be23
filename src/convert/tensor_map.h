// A family's table expanded for a model: one row per tensor of their files, with the part of our parameter that it contains.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "convert/hf_config.h"
#include "tensor/tensor.h"

namespace trireme {

// Which side has a tensor. On the other side it is zeros.
enum class TensorSide : uint8_t { both, ours_only, theirs_only };

struct MappedTensor {
  std::string ours, theirs;
  Shape shape;                      // of their tensor
  int64_t first_row = 0, rows = 0;  // of our parameter
  int64_t width = 1;                // elements per row
  int64_t heads = 0;                // for TensorLayout::heads_interleaved
  TensorLayout layout = TensorLayout::as_is;
  TensorSide side = TensorSide::both;
  float added = 0;  // added to ours to get theirs, for norm weights stored minus 1

  int64_t count() const { return rows * width; }
};

// Returns the tensors in table order, layer by layer.
std::vector<MappedTensor> map_tensors(const HfModel& model);

// Copies the elements of `from`, our rows, to their order, and back.
void rearrange_to_theirs(const MappedTensor& tensor, std::span<const float> from, std::span<float> to);
void rearrange_to_ours(const MappedTensor& tensor, std::span<const float> from, std::span<float> to);

}  // namespace trireme
