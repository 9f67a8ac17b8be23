#include "train/engine_checkpoint.h"

#include <map>

namespace trireme {

std::vector<CheckpointTensor> parameter_tensors(const FlatLayout& layout, const FlatViews& views, const std::string& prefix) {
  std::vector<CheckpointTensor> tensors;
  for (size_t row = 0; row < layout.table.size(); ++row) {
    const ParameterRow& parameter = layout.table[row];
    const Tensor padded = views.parameter(row);
    tensors.push_back({prefix + parameter.name, TensorSlice::whole(parameter.shape), padded.rows(0, parameter.shape[0])});
  }
  return tensors;
}

std::vector<CheckpointTensor> checkpoint_tensors(const Engine& engine) {
  std::vector<CheckpointTensor> tensors;
  const auto add = [&](const std::string& prefix, const FlatViews& views) {
    for (CheckpointTensor& tensor : parameter_tensors(engine.layout(), views, prefix)) tensors.push_back(std::move(tensor));
  };
  add("", engine.masters());
  add("first_moment.", engine.first_moment());
  add("second_moment.", engine.second_moment());
  return tensors;
}

void require_same_parameters(const StoredCheckpoint& checkpoint, const ModelSettings& model, const std::string& key) {
  std::map<std::string, Shape> stored;
  for (const StoredShard& shard : checkpoint.manifest.shards)
    for (const StoredTensor& tensor : shard.tensors) stored.emplace(tensor.name, tensor.slice.global);
  for (const ParameterRow& row : parameter_table(model)) {
    const auto found = stored.find(row.name);
    if (found == stored.end())
      throw UserError("{}={} has no {}, which this model has; its settings are in manifest.json there", key,
                      checkpoint.folder.string(), row.name);
    if (found->second != row.shape)
      throw UserError("{}={} has {} as {}, and this model as {}; its settings are in manifest.json there", key,
                      checkpoint.folder.string(), row.name, found->second, row.shape);
    stored.erase(found);
  }
  for (const auto& [name, shape] : stored)
    if (!name.starts_with("first_moment.") && !name.starts_with("second_moment."))
      throw UserError("{}={} has {}, which this model has not; its settings are in manifest.json there", key,
                      checkpoint.folder.string(), name);
}

}  // namespace trireme
