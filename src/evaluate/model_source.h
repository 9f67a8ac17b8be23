// The model that a user names to be evaluated: a checkpoint, or a folder of transformers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/settings.h"
#include "data/tokenizer/tokenizer.h"
#include "train/checkpoint/slice.h"

namespace trireme {

struct ModelSource {
  std::string named;     // by the user
  std::string identity;  // differs between models: a checkpoint's folder, step and date, or a model's files
  int64_t step = -1;     // of a checkpoint
  Settings settings;
  std::vector<std::string> notes;  // what the user should know: damaged checkpoints that were passed over
  int64_t parameters() const;
  // Fills f32 tensors with the parameters of their names.
  std::function<void(const std::vector<CheckpointTensor>&)> load;
  std::function<std::unique_ptr<Tokenizer>()> open_tokenizer;
};

// `tokenizer` is the --tokenizer that the user gave, or empty: the model's own. UserError if there is no model.
ModelSource open_model_source(const std::string& named, const std::string& tokenizer);

}  // namespace trireme
