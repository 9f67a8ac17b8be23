#include "config/recipe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "config/interpolation.h"
#include "config/overrides.h"
#include "config/settings_reader.h"
#include "config/suggestions.h"
#include "config/validate.h"
#include "config/yaml.h"

namespace trireme {

namespace fs = std::filesystem;

namespace {

constexpr int kMaxFiles = 64;  // of one recipe; more can only come from files that extend each other over and over

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_directory(path, ignored);
}

bool looks_like_path(const std::string& text) {
  return text.ends_with(".yaml") || text.ends_with(".yml") || text.starts_with('/') || text.starts_with('.');
}

// The file of a shipped recipe; empty if there is none of that name.
std::string find_shipped(const std::string& name) {
  for (const std::string& folder : recipe_folders())
    if (const fs::path path = fs::path(folder) / (name + ".yaml"); is_file(path)) return path.string();
  return {};
}

std::string find_recipe(const std::string& name_or_path) {
  if (looks_like_path(name_or_path)) return name_or_path;  // reading it says what is wrong with it
  if (std::string shipped = find_shipped(name_or_path); !shipped.empty()) return shipped;
  if (is_file(name_or_path)) return name_or_path;
  std::vector<std::string> names;
  for (const ShippedRecipe& recipe : shipped_recipes()) names.push_back(recipe.name);
  throw UserError(
      "{}: no such recipe in {}{}", name_or_path,
      recipe_folders().empty() ? "any folder (set TRIREME_RECIPES)" : fmt::format("{}", fmt::join(recipe_folders(), ", ")),
      did_you_mean(name_or_path, names));
}

class Composer {
 public:
  Tree load(const std::string& path) {
    std::error_code failed;
    const fs::path resolved = fs::weakly_canonical(path, failed);
    const std::string identity = failed ? path : resolved.string();
    if (std::ranges::find(open_, identity) != open_.end())
      throw UserError("{}:1: extends itself: {} -> {}", path, fmt::join(open_, " -> "), identity);
    if (++files_ > kMaxFiles) throw UserError("{}:1: a recipe may be built from at most {} files", path, kMaxFiles);
    open_.push_back(identity);
    Tree own = read_yaml_file(path);
    if (!own.is_map()) throw UserError("{}:1: a recipe must be a map of keys such as trainer: and model:", path);
    Tree recipe{Tree::Map{}, own.origin};
    for (const std::string& base : bases_of(own, path)) recipe.merge(load(base));
    own.remove("extends");
    recipe.merge(std::move(own));
    open_.pop_back();
    return recipe;
  }

 private:
  static std::vector<std::string> bases_of(const Tree& recipe, const std::string& path) {
    const Tree* extends = recipe.find("extends");
    if (extends == nullptr || extends->is_null()) return {};
    std::vector<std::string> bases;
    const auto add = [&](const Tree& base) {
      if (!base.is_string())
        throw UserError("{}: extends={}: expected the name of a recipe or a list of them", base.where(), base.brief());
      bases.push_back(find_base(base, path));
    };
    if (extends->is_list())
      std::ranges::for_each(extends->list(), add);
    else
      add(*extends);
    return bases;
  }

  static std::string find_base(const Tree& base, const std::string& path) {
    const std::string& name = base.string();
    const fs::path folder = fs::path(path).parent_path();
    for (const std::string& candidate : {name, name + ".yaml"})
      if (is_file(folder / candidate)) return (folder / candidate).string();
    if (std::string shipped = find_shipped(name); !shipped.empty()) return shipped;
    throw UserError("{}: extends={}: no such recipe beside this file or among the shipped ones", base.where(), base.brief());
  }

  std::vector<std::string> open_;  // the files being read, each because the one before extends it
  int files_ = 0;
};

std::string summary_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line.starts_with("# ") ? line.substr(2) : std::string{};
}

}  // namespace

std::vector<std::string> recipe_folders() {
  std::vector<fs::path> candidates;
  if (const char* folder = std::getenv("TRIREME_RECIPES"); folder != nullptr && *folder != '\0') candidates.emplace_back(folder);
  std::error_code failed;
  if (const fs::path program = fs::read_symlink("/proc/self/exe", failed); !failed)
    for (const char* place : {"recipes", "../recipes", "../share/trireme/recipes"})
      candidates.push_back(program.parent_path() / place);
  std::vector<std::string> folders;
  for (const fs::path& candidate : candidates)
    if (fs::is_directory(candidate, failed)) folders.push_back(candidate.lexically_normal().string());
  return folders;
}

std::vector<ShippedRecipe> shipped_recipes() {
  std::vector<ShippedRecipe> recipes;
  std::error_code failed;
  for (const std::string& folder : recipe_folders()) {
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, failed)) {
      if (entry.path().extension() != ".yaml" || !is_file(entry.path())) continue;
      const std::string name = entry.path().lexically_relative(folder).replace_extension().string();
      // A name found in an earlier folder hides later ones, as it does when it is loaded.
      if (std::ranges::find(recipes, name, &ShippedRecipe::name) == recipes.end())
        recipes.push_back({name, entry.path().string(), summary_of(entry.path())});
    }
  }
  std::ranges::sort(recipes, {}, &ShippedRecipe::name);
  return recipes;
}

Tree load_recipe(const std::string& name_or_path) { return Composer().load(find_recipe(name_or_path)); }

ResolvedRecipe resolve_recipe(const std::string& name_or_path, const std::vector<std::string>& overrides) {
  Tree recipe = load_recipe(name_or_path);
  for (const std::string& text : overrides) {
    const Override change = parse_override(text);
    const bool is_new = change.action == Override::Action::set && recipe.find(change.key) == nullptr;
    if (is_new && !is_known_key(change.key)) throw_unknown_key(change.key, "");
    apply_override(recipe, change);
  }
  resolve_interpolations(recipe);
  ReadSettings read = read_settings(recipe);
  validate(read.settings);
  return {std::move(recipe), std::move(read.settings), std::move(read.ignored_keys)};
}

}  // namespace trireme
