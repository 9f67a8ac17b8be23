// LitGPT's recipes (config_hub/pretrain/*.yaml) and the names of its models, as recipes of this program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/tree.h"

namespace trireme {

inline constexpr const char* kLitgptModels = "litgpt/_models";  // the shipped file that has them

// A file with LitGPT's keys: model_name or model_config beside train.
bool is_litgpt_recipe(const Tree& recipe);

// The same settings under the keys of this program. What has no counterpart keeps its key. `models` is the file of litgpt_models.
Tree from_litgpt(Tree recipe, const std::string& models);

// The group `model` of the model with this name; nothing if the file has none. A UserError that says which block is missing here.
std::optional<Tree> litgpt_model(const std::string& name, const std::string& models);

std::vector<std::string> litgpt_names(const std::string& models);

}  // namespace trireme
