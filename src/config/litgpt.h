// Translates LitGPT's recipes (config_hub/pretrain/*.yaml) and model names to recipes of this program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/tree.h"

namespace trireme {

inline constexpr const char* kLitgptModels = "litgpt/_models";  // the shipped file with the models

// Whether the file has LitGPT's keys: model_name or model_config, together with train.
bool is_litgpt_recipe(const Tree& recipe);

// Returns the same settings under this program's keys. Keys without a counterpart are kept. `models` is the path of the file
// kLitgptModels.
Tree from_litgpt(Tree recipe, const std::string& models);

// Returns the group `model` of the model with this name, or nullopt if the file does not have it. A UserError names a kind of
// block that this program does not support.
std::optional<Tree> litgpt_model(const std::string& name, const std::string& models);

std::vector<std::string> litgpt_names(const std::string& models);

}  // namespace trireme
