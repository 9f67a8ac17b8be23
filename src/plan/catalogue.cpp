#include "plan/catalogue.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "config/recipe.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> catalogue_folders(const std::string& catalogue) {
  std::vector<fs::path> folders;
  std::error_code failed;
  for (const std::string& recipes : recipe_folders())
    if (const fs::path folder = fs::path(recipes).parent_path() / catalogue; fs::is_directory(folder, failed))
      folders.push_back(folder);
  return folders;
}

double number_of(const Tree& value) {
  return value.kind() == Tree::Kind::integer ? static_cast<double>(value.integer()) : value.real();
}

}  // namespace

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

void read_numbers(const Tree& file, const std::string& path, std::span<const NumberKey> keys) {
  for (const NumberKey& key : keys) {
    const Tree* value = file.find(key.key);
    if (value == nullptr) {
      if (!key.may_be_missing) throw UserError("{}: {} is missing; give a number", path, key.key);
      continue;
    }
    if (value->kind() != Tree::Kind::integer && value->kind() != Tree::Kind::real)
      throw UserError("{}={}: expected a number{}", key.key, value->brief(), value->where_suffix());
    const double number = number_of(*value);
    if (!(number >= 0) || number > 1e300)
      throw UserError("{}={}: expected a number of at least 0{}", key.key, value->brief(), value->where_suffix());
    *key.value = number;
  }
}

void require_known_keys(const Tree& file, std::span<const NumberKey> numbers, std::span<const std::string_view> others) {
  for (const Tree::Entry& entry : file.map()) {
    const bool is_number = std::ranges::any_of(numbers, [&](const NumberKey& key) { return key.key == entry.key; });
    if (is_number || std::ranges::find(others, entry.key) != others.end()) continue;
    std::vector<std::string> known(others.begin(), others.end());
    for (const NumberKey& key : numbers) known.emplace_back(key.key);
    throw UserError("{} is not a key here{}; use {}", entry.key, entry.value.where_suffix(), fmt::join(known, ", "));
  }
}

}  // namespace trireme
