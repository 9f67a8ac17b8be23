#include "report/model_types.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

namespace trireme {
namespace {

struct ModelType {
  std::string_view name;
  double flops_per_sample;
};

// Sequence lengths: 2048 tokens for GPT-3, 4096 for Llama 2, 8192 for Llama 3.
constexpr std::array kModelTypes{
    ModelType{"gpt3-5b", 6.69e13},        ModelType{"gpt3-175b", 2.2e15},         ModelType{"llama2-7b", 1.89e14},
    ModelType{"llama2-70b", 1.82e15},     ModelType{"llama3-70b", 3.94e15},       ModelType{"llama3.1-8b", 4.74e14},
    ModelType{"llama3.1-70b", 3.9129e15}, ModelType{"llama3.1-405b", 2.16533e16}, ModelType{"mixtral-7b", 3.4e14},
    ModelType{"mixtral-8x7b", 3.4e14},
};

}  // namespace

std::optional<double> model_type_flops(std::string_view name) {
  const auto* const row = std::ranges::find(kModelTypes, name, &ModelType::name);
  return row == kModelTypes.end() ? std::nullopt : std::optional(row->flops_per_sample);
}

std::string model_type_names() {
  std::vector<std::string_view> names;
  for (const ModelType& type : kModelTypes) names.push_back(type.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace trireme
