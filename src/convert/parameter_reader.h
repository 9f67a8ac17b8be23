// Parameters of a checkpoint, one in memory at a time.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "config/settings.h"
#include "train/checkpoint/folder.h"

namespace trireme {

class ParameterReader {
 public:
  // The checkpoint must stay.
  ParameterReader(const StoredCheckpoint& checkpoint, const ModelSettings& model);

  const Shape& shape_of(const std::string& name) const { return shapes_.at(name); }
  // In f32; valid until another parameter is asked for. UserError if an element is NaN or infinite.
  std::span<const float> read(const std::string& name);

 private:
  const StoredCheckpoint& checkpoint_;
  std::map<std::string, Shape> shapes_;
  std::string name_;
  std::vector<float> values_;
};

}  // namespace trireme
