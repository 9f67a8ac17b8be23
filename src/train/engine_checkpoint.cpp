#include "train/engine_checkpoint.h"

namespace trireme {

std::vector<CheckpointTensor> checkpoint_tensors(const Engine& engine) {
  const FlatLayout& layout = engine.layout();
  std::vector<CheckpointTensor> tensors;
  const auto add = [&](const std::string& prefix, const auto& values_of) {
    for (const Bucket& bucket : layout.buckets)
      for (const OwnedPart& part : bucket.parts) {
        const ParameterRow& row = layout.table[part.row];
        const TensorSlice slice =
            TensorSlice::rectangle(row.shape, part.piece.offset, part.piece.extent).part(part.begin, part.count);
        const Tensor values = values_of(bucket, part);
        tensors.push_back({prefix + row.name, slice, values.reshaped(slice.shape())});
      }
  };
  const auto states = [](const Tensor& state) {
    return [=](const Bucket&, const OwnedPart& part) { return state.rows(part.state, part.count); };
  };
  add("", [&](const Bucket& bucket, const OwnedPart& part) { return engine.master(bucket, part); });
  add("first_moment.", states(engine.first_moment()));
  add("second_moment.", states(engine.second_moment()));
  return tensors;
}

}  // namespace trireme
