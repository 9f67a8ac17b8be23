// config.json, the settings of a model of transformers, and what it means here.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "convert/hf_family.h"

namespace trireme {

enum class HasBias : uint8_t { no, yes };

// A model as both sides see it.
struct HfModel {
  const HfFamily* family = nullptr;
  Settings settings;
  // In their files. Ours have both or none; what is missing on either side is zeros.
  HasBias attention_bias = HasBias::yes, mlp_bias = HasBias::yes;
};

// What to export a model of these settings as. A UserError names the setting that no family has.
HfModel hf_model_of(const Settings& settings);

struct ConfigFacts {
  const char* dtype = "float32";          // as PyTorch names it
  std::optional<int64_t> end_token = {};  // that ends a document
};
nlohmann::ordered_json write_hf_config(const HfModel& model, const ConfigFacts& facts);

// UserErrors, beginning with `where`, for text that is not JSON, unknown models, and settings that cannot be had here. The
// settings that config.json does not know, of the training, are meant for going on with a trained model.
HfModel read_hf_config(const std::string& text, const std::string& where);

}  // namespace trireme
