// The weights that a user names: a checkpoint, or a folder of transformers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/settings.h"
#include "train/checkpoint/slice.h"

namespace trireme {

struct ModelSource {
  std::string named;     // by the user
  std::string identity;  // differs between models: a checkpoint's folder, step and date, or a model's files
  int64_t step = -1;     // of a checkpoint; -1: there is none
  Settings settings;
  std::vector<std::string> notes;  // what the user should know: damaged checkpoints that were passed over
  int64_t parameters() const;
  // Fills f32 tensors with the parameters of their names.
  std::function<void(const std::vector<CheckpointTensor>&)> load;
  // UserError, naming what differs, unless the parameters are those of this model; `key` is where the user named the source.
  std::function<void(const ModelSettings& model, const std::string& key)> require_same_parameters;
};

// Whether `named` is a folder of transformers, or one of its safetensors files.
bool is_transformers_model(const std::string& named);

// Reads settings and names, and no weights yet. UserError if there is no model.
ModelSource open_model_source(const std::string& named);

}  // namespace trireme
