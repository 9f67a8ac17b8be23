#include "config/catalogue.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "config/recipe.h"

namespace trireme {

namespace fs = std::filesystem;

std::vector<fs::path> catalogue_folders(const std::string& catalogue) {
  std::vector<fs::path> folders;
  std::error_code failed;
  for (const std::string& recipes : recipe_folders())
    if (const fs::path folder = fs::path(recipes).parent_path() / catalogue; fs::is_directory(folder, failed))
      folders.push_back(folder);
  return folders;
}

std::vector<std::string> catalogue_names(const std::string& catalogue) {
  std::vector<std::string> names;
  for (const fs::path& folder : catalogue_folders(catalogue))
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

fs::path find_in_catalogue(const std::string& catalogue, const std::string& name, const std::string& option) {
  if (name.ends_with(".yaml") || name.ends_with(".yml") || name.find('/') != std::string::npos) return name;
  for (const fs::path& folder : catalogue_folders(catalogue))
    if (fs::path path = folder / (name + ".yaml"); fs::exists(path)) return path;
  throw UserError("{} {}: not known; use {}, or the path of a YAML file like those in {}", option, name,
                  fmt::join(catalogue_names(catalogue), ", "), catalogue);
}

}  // namespace trireme
