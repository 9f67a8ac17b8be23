#include "config/recipe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "config/composer.h"
#include "config/interpolation.h"
#include "config/known_keys.h"
#include "config/litgpt.h"
#include "config/overrides.h"
#include "config/settings_fields.h"
#include "config/settings_reader.h"
#include "config/suggestions.h"
#include "config/validate.h"

namespace trireme {

namespace fs = std::filesystem;

namespace {

bool looks_like_path(const std::string& text) {
  return text.ends_with(".yaml") || text.ends_with(".yml") || text.starts_with('/') || text.starts_with('.');
}

// The file of a shipped recipe; empty if no recipe has that name.
std::string find_shipped(const std::string& name) {
  for (const std::string& folder : recipe_folders())
    if (const fs::path path = fs::path(folder) / (name + ".yaml"); is_file(path)) return path.string();
  return {};
}

// LitGPT's models train with the settings of LitGPT's own trainer.
constexpr const char* kLitgptBase = "pythia/_base";

// The model with this LitGPT name, with or without its organisation: EleutherAI/pythia-70m.
std::optional<Tree> litgpt_model_of(const std::string& name) {
  const std::string models = find_shipped(kLitgptModels);
  if (models.empty() || looks_like_path(name)) return std::nullopt;
  return litgpt_model(name.substr(name.rfind('/') + 1), models);
}

// Suggests names for one that no recipe has.
std::string hint_for(const std::string& name) {
  std::vector<std::string> names, namesakes;
  bool is_group = false;
  for (const ShippedRecipe& recipe : shipped_recipes()) {
    names.push_back(recipe.name);
    is_group = is_group || recipe.name.starts_with(name + "/");
    if (recipe.name.ends_with("/" + name)) namesakes.push_back(recipe.name);
  }
  for (std::string& model : litgpt_names(find_shipped(kLitgptModels))) names.push_back(std::move(model));
  if (is_group) return fmt::format("; trireme recipes {}/ lists that group", name);
  if (!namesakes.empty()) return fmt::format("; did you mean {}?", join_names(namesakes));
  const std::string hint = did_you_mean(name, names);
  return hint.empty() ? "; trireme recipes lists those there are" : hint;
}

std::string find_recipe(const std::string& name_or_path) {
  if (looks_like_path(name_or_path)) return name_or_path;  // reading the file reports what is wrong with it
  if (std::string shipped = find_shipped(name_or_path); !shipped.empty()) return shipped;
  if (is_file(name_or_path) || is_file(fs::path(name_or_path) / "config.yaml")) return name_or_path;
  if (litgpt_model_of(name_or_path)) return find_shipped(kLitgptBase);
  throw UserError(
      "{}: no such recipe in {}{}", name_or_path,
      recipe_folders().empty() ? "any folder (set TRIREME_RECIPES)" : fmt::format("{}", fmt::join(recipe_folders(), ", ")),
      hint_for(name_or_path));
}

// A file of a launcher's tree, conf/training/gpt3/5b.yaml, is the choice gpt3/5b of conf/config.yaml, which has the keys that it
// refers to.
struct LauncherFile {
  fs::path config;
  std::string choice;
};
std::optional<LauncherFile> find_launcher_tree(const fs::path& path) {
  std::error_code failed;
  const fs::path file = fs::absolute(path, failed).lexically_normal();
  for (fs::path folder = file.parent_path(); folder != folder.root_path(); folder = folder.parent_path()) {
    const fs::path config = folder.parent_path() / "config.yaml";
    if (folder.filename() != "training" || !is_file(config) || !has_group(config.string(), "training")) continue;
    return LauncherFile{config.lexically_proximate(fs::current_path(failed)),
                        file.lexically_relative(folder).replace_extension()};
  }
  return std::nullopt;
}

bool is_override(const std::string& text) { return text.find('=') != std::string::npos && !is_file(text); }

// Removes training=NAME from the changes; the launcher's users name the recipe that way.
std::string take_training_choice(std::vector<Override>& changes) {
  const auto choice = std::ranges::find(changes, "training", &Override::key);
  if (choice == changes.end() || !choice->value.is_string() || choice->value.string().empty())
    throw UserError("which recipe? give its name first, or training=NAME; trireme recipes lists them");
  std::string name = choice->value.string();
  changes.erase(choice);
  return name;
}

Composition compose_recipe(const std::string& name_or_path, std::vector<Override> changes) {
  std::string path = find_recipe(name_or_path);
  std::error_code ignored;
  if (const fs::path config = fs::path(path) / "config.yaml"; fs::is_directory(path, ignored) && is_file(config))
    path = config.string();
  if (const auto launcher = find_launcher_tree(path); launcher && looks_like_path(name_or_path)) {
    path = launcher->config.string();
    changes.insert(changes.begin(), parse_override("training=" + launcher->choice));
  }
  Composition composition = compose(path, std::move(changes), find_shipped);
  if (path != find_shipped(kLitgptBase) || name_or_path == kLitgptBase) return composition;
  Tree recipe(Tree::Map{});
  recipe.set("model", *litgpt_model_of(name_or_path));
  recipe.set("run.name", Tree(name_or_path.substr(name_or_path.rfind('/') + 1)));
  composition.tree.merge(std::move(recipe));
  return composition;
}

// The place of a user's key in the composed tree. In a launcher's tree the recipe is under `training`. Outside of one the
// launcher's users still write that prefix.
std::string place_of(const std::string& key, const Composition& composition) {
  constexpr std::string_view kRoot = "training.";
  if (!composition.is_launcher_tree) {
    const bool strip = key.starts_with(kRoot) && composition.tree.find("training") == nullptr;
    return strip ? key.substr(kRoot.size()) : key;
  }
  const bool is_launchers = composition.tree.find(split_path(key).key) != nullptr;
  const Tree* recipe = composition.tree.find("training");
  const bool is_recipes = recipe != nullptr && (recipe->find(split_path(key).key) != nullptr || find_setting(key) != nullptr);
  return !is_launchers && is_recipes ? std::string(kRoot) + key : key;
}

std::string key_in_recipe(const std::string& place, bool is_launcher_tree) {
  constexpr std::string_view kRoot = "training.";
  return is_launcher_tree && place.starts_with(kRoot) ? place.substr(kRoot.size()) : place;
}

void apply_changes(Composition& composition) {
  for (Override& change : composition.changes) {
    change.key = canonical_key(place_of(change.key, composition));
    const bool is_new = change.action == Override::Action::set && composition.tree.find(change.key) == nullptr;
    const std::string key = key_in_recipe(change.key, composition.is_launcher_tree);
    if (is_new && !is_known_key(key)) throw_unknown_key(key, "");
    apply_override(composition.tree, change);
  }
}

References resolve_references(Composition& composition) {
  const bool launcher = composition.is_launcher_tree;
  References references;
  InterpolationContext context;
  context.refers = [&](const std::string& by, const std::string& to) {
    references.emplace_back(key_in_recipe(by, launcher), key_in_recipe(to, launcher));
  };
  context.choice = [&](const std::string& group) { return composition.choice(group); };
  context.may_dangle = [&](const std::string& place) {
    const std::string key = key_in_recipe(place, launcher);
    return (launcher && key == place) || find_without_effect(key).has_value();
  };
  resolve_interpolations(composition.tree, context);
  return references;
}

// The recipe itself: the whole tree, or the group `training` of a launcher's tree; nullptr if that is absent.
const Tree* recipe_in(const Composition& composition) {
  return composition.is_launcher_tree ? composition.tree.find("training") : &composition.tree;
}

// The name for the runs of a user's file. A name that the file only inherits would mix its runs with those of the recipe it
// extends. Returns nullopt if the file or the command line gives the name, for shipped recipes, and for files of a launcher's
// tree.
std::optional<std::string> name_after_file(const std::string& name_or_path, const Composition& composition) {
  std::error_code failed;
  const bool is_shipped = !looks_like_path(name_or_path) && !find_shipped(name_or_path).empty();
  if (is_shipped || composition.is_launcher_tree || !fs::is_regular_file(name_or_path, failed)) return std::nullopt;
  const auto is_own = [&](const char* key) {
    const Tree* name = composition.tree.find(key);
    if (name == nullptr || name->is_null()) return false;
    return name->origin.file == nullptr || name->origin.line == 0 || *name->origin.file == name_or_path;
  };
  if (is_own("exp_manager.name") || is_own("run.name")) return std::nullopt;
  return as_utf8(fs::path(name_or_path).stem().string());  // the name becomes part of the recipe
}

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
    // A build folder links to the recipes of its sources; an installed program has them under share.
    for (const char* place : {"recipes", "../share/trireme/recipes", "../recipes"})
      candidates.push_back(program.parent_path() / place);
  std::vector<std::string> folders;
  for (const fs::path& candidate : candidates) {
    const std::string folder = fs::weakly_canonical(candidate, failed).string();
    const bool is_new = std::ranges::find(folders, folder) == folders.end();
    if (is_new && fs::is_directory(folder, failed)) folders.push_back(folder);
  }
  return folders;
}

std::string shipped_summary(const std::string& name) {
  const std::string path = find_shipped(name);
  return path.empty() ? path : summary_of(path);
}

std::vector<ShippedRecipe> shipped_recipes() {
  std::vector<ShippedRecipe> recipes;
  std::error_code failed;
  for (const std::string& folder : recipe_folders()) {
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, failed)) {
      const bool serves_others = entry.path().filename().string().starts_with('_');
      if (entry.path().extension() != ".yaml" || serves_others || !is_file(entry.path())) continue;
      const std::string name = entry.path().lexically_relative(folder).replace_extension().string();
      if (name.starts_with("data/")) continue;  // dataset recipes, for trireme data run
      // A name found in an earlier folder hides the same name in later ones, as in loading.
      if (std::ranges::find(recipes, name, &ShippedRecipe::name) == recipes.end())
        recipes.push_back({name, entry.path().string(), summary_of(entry.path())});
    }
  }
  std::ranges::sort(recipes, {}, &ShippedRecipe::name);
  return recipes;
}

void ResolvedRecipe::require_training() const {
  if (!launcher.no_training.empty()) throw UserError("{}", launcher.no_training);
  const Tree* data = tree.find("data");  // LitGPT's
  if (data != nullptr && !data->is_null() && tree.find("model.data.data_impl") == nullptr)
    throw UserError(
        "data={}: LitGPT fetches and prepares this itself; name prepared data with model.data.data_impl and "
        "model.data.data_prefix, or use model.data.data_impl=mock{}",
        data->brief(), data->where_suffix());
}

std::vector<std::string> ResolvedRecipe::notices(Detail detail) const {
  std::vector<std::string> lines = {idle_text(ignored_keys, detail), launcher.text()};
  std::erase(lines, "");
  return lines;
}

Tree load_recipe(const std::string& name_or_path) { return compose_recipe(name_or_path, {}).tree; }

ResolvedRecipe resolve_recipe(const std::string& name_or_path, const std::vector<std::string>& overrides, Validation validation) {
  std::vector<Override> changes;
  if (is_override(name_or_path)) changes.push_back(parse_override(name_or_path));
  for (const std::string& text : overrides) changes.push_back(parse_override(text));
  const std::string name = is_override(name_or_path) ? take_training_choice(changes) : name_or_path;
  Composition composition = compose_recipe(name, std::move(changes));
  apply_changes(composition);
  if (const Tree* given = recipe_in(composition)) check_given_values(*given);
  const std::optional<std::string> own_name = name_after_file(name, composition);
  const References references = resolve_references(composition);
  LauncherRequest launcher = read_launcher_request(composition.tree, composition.choice("cluster"));
  const Tree* resolved = recipe_in(composition);
  Tree recipe = resolved == nullptr ? Tree(Tree::Map{}) : Tree(*resolved);
  ReadSettings read = read_settings(recipe);
  if (own_name) read.settings.exp_manager.name = *own_name;
  if (validation == Validation::now) validate(read.settings);
  std::vector<IdleKey> ignored = without_used(std::move(read.ignored_keys), recipe, references);
  Tree launcher_settings;
  if (composition.is_launcher_tree) {
    launcher_settings = std::move(composition.tree);
    launcher_settings.remove("training");
  }
  return {std::move(recipe), std::move(read.settings), std::move(ignored), std::move(launcher), std::move(launcher_settings)};
}

}  // namespace trireme
