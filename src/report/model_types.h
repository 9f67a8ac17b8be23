// The models that the training-metrics tool of Google's gpu-recipes knows by name, with its figures, so that results compare.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// FLOPs of forward and backward for one sample of "gpt3-175b" and the like.
std::optional<double> model_type_flops(std::string_view name);

std::string model_type_names();  // "gpt3-5b, gpt3-175b, ..."

}  // namespace trireme
