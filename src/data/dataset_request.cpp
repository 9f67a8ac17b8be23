#include "data/dataset_request.h"

#include <fmt/format.h>

namespace trireme {

bool has_own_datasets(const DataSettings& settings) {
  return !settings.validation_prefix.empty() || !settings.test_prefix.empty();
}

const std::vector<std::string>& prefixes_of(const DataSettings& settings, Split split) {
  if (!has_own_datasets(settings) || split == Split::train) return settings.data_prefix;
  return split == Split::validation ? settings.validation_prefix : settings.test_prefix;
}

std::string prefix_key(const DataSettings& settings, Split split) {
  constexpr const char* kKey = "model.data.data_prefix";
  return has_own_datasets(settings) ? fmt::format("{}.{}", kKey, name_of(split)) : kKey;
}

}  // namespace trireme
