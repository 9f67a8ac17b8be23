// config.json, the settings of a transformers model, and their meaning here.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "convert/hf_family.h"

namespace trireme {

enum class HasBias : uint8_t { no, yes };

// A model in both representations.
struct HfModel {
  const HfFamily* family = nullptr;
  Settings settings;
  // Biases in the files of transformers. Our models have all or none; a missing one is zeros.
  HasBias attention_bias = HasBias::yes, mlp_bias = HasBias::yes;
};

// Returns the transformers model to export these settings as. UserError names the setting that no family supports.
HfModel hf_model_of(const Settings& settings);

struct ConfigFacts {
  const char* dtype = "float32";          // PyTorch's name
  std::optional<int64_t> end_token = {};  // end-of-document token
};
nlohmann::ordered_json write_hf_config(const HfModel& model, const ConfigFacts& facts);

// UserError, starting with `where`, for text that is not JSON, unknown models, and unsupported settings. The training settings,
// which config.json does not have, are set to continue training a pretrained model.
HfModel read_hf_config(const std::string& text, const std::string& where);

}  // namespace trireme
