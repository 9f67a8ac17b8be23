#include "train/engine_checkpoint.h"

namespace trireme {

std::vector<CheckpointTensor> checkpoint_tensors(const Engine& engine) {
  std::vector<CheckpointTensor> tensors;
  const auto add = [&](const std::string& prefix, const FlatViews& views) {
    for (size_t row = 0; row < engine.layout().table.size(); ++row) {
      const ParameterRow& parameter = engine.layout().table[row];
      const Tensor padded = views.parameter(row);
      tensors.push_back({prefix + parameter.name, TensorSlice::whole(parameter.shape), padded.rows(0, parameter.shape[0])});
    }
  };
  add("", engine.masters());
  add("first_moment.", engine.first_moment());
  add("second_moment.", engine.second_moment());
  return tensors;
}

}  // namespace trireme
