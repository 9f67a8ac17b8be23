#include "launch/network_profile.h"

#include <filesystem>

#include "base/error.h"
#include "config/catalogue.h"
#include "config/yaml.h"

namespace trireme {
std::vector<std::string> shipped_networks() { return catalogue_names("networks"); }

NetworkProfile load_network_profile(const std::string& name_or_path) {
  const std::filesystem::path path = find_in_catalogue("networks", name_or_path, "--network");
  const Tree file = read_yaml_file(path.string());
  NetworkProfile profile{.name = path.stem().string(), .summary = {}, .environment = {}};
  if (!file.is_map()) throw UserError("{} is not a network profile: it has no keys", path.string());
  for (const Tree::Entry& entry : file.map()) {
    if (entry.key == "summary") {
      profile.summary = entry.value.text();
    } else if (entry.key == "env" && entry.value.is_map()) {
      for (const Tree::Entry& variable : entry.value.map()) profile.environment.push_back({variable.key, variable.value.text()});
    } else {
      throw UserError("{} is not a key of a network profile; use summary and env{}", entry.key, entry.value.where_suffix());
    }
  }
  return profile;
}

}  // namespace trireme
