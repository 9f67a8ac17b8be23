#include "convert/parameter_reader.h"

#include <algorithm>
#include <cmath>

#include "model/parameter_table.h"
#include "train/checkpoint/reader.h"

namespace trireme {

ParameterReader::ParameterReader(const StoredCheckpoint& checkpoint, const ModelSettings& model) : checkpoint_(checkpoint) {
  for (const ParameterRow& row : parameter_table(model)) shapes_.emplace(row.name, row.shape);
}

std::span<const float> ParameterReader::read(const std::string& name) {
  if (name_ == name) return values_;
  name_ = name;
  const Shape& shape = shapes_.at(name);
  values_.resize(static_cast<size_t>(shape.count()));
  const Tensor to{.data = values_.data(), .dtype = DType::f32, .shape = shape, .device = Device::host};
  load_checkpoint(checkpoint_, std::vector<CheckpointTensor>{{name, TensorSlice::whole(shape), to}});
  if (!std::ranges::all_of(values_, [](float value) { return std::isfinite(value); }))
    throw UserError("{}: parameter {} has values that are NaN or infinite; export an earlier checkpoint",
                    checkpoint_.folder.string(), name);
  return values_;
}

}  // namespace trireme
