// The models that gpu-recipes' training-metrics tool knows by name, with its figures, so that results are comparable.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// Returns the FLOPs of forward and backward per sample of "gpt3-175b" and others.
std::optional<double> model_type_flops(std::string_view name);

std::string model_type_names();  // "gpt3-5b, gpt3-175b, ..."

}  // namespace trireme
