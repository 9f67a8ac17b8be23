#include "launch/network_profile.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "config/recipe.h"
#include "config/yaml.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Beside the recipes, wherever these are.
std::vector<fs::path> network_folders() {
  std::vector<fs::path> folders;
  std::error_code failed;
  for (const std::string& recipes : recipe_folders())
    if (const fs::path folder = fs::path(recipes).parent_path() / "networks"; fs::is_directory(folder, failed))
      folders.push_back(folder);
  return folders;
}

fs::path find_network(const std::string& name) {
  if (name.ends_with(".yaml") || name.ends_with(".yml") || name.find('/') != std::string::npos) return name;
  for (const fs::path& folder : network_folders())
    if (fs::path path = folder / (name + ".yaml"); fs::exists(path)) return path;
  throw UserError("network={}: use {}, or the path of a YAML file like them", name, fmt::join(shipped_networks(), ", "));
}

}  // namespace

std::vector<std::string> shipped_networks() {
  std::vector<std::string> names;
  for (const fs::path& folder : network_folders())
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

NetworkProfile load_network_profile(const std::string& name_or_path) {
  const fs::path path = find_network(name_or_path);
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
