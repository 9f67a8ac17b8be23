#include "cli/recipe_arguments.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/process.h"

namespace trireme {

void RecipeArguments::add_to(CLI::App& command) {
  command
      .add_option("recipe", recipe,
                  "a shipped recipe (trireme recipes lists them), the path of a YAML file or of a launcher's conf folder, or "
                  "training=NAME")
      ->capture_default_str();
  command.add_option("overrides", overrides, "settings as key=value (trireme config --keys lists them)");
  command.add_option("--config-path", config_path, "folder of the recipe, as Hydra has it; then every argument is key=value");
  command.add_option("--config-name", config_name, "file in that folder, config.yaml if not given");
  command.add_option("--gpu", gpu,
                     "GPU that the memory of a rank is compared with: h100-80, h200-141, a100-40, ...; if not given, "
                     "the one in the recipe's name, else h100-80");
  command.add_flag("--verbose", verbose, "list the keys of the recipe that have no effect here, by reason");
}

ResolvedRecipe RecipeArguments::resolve(std::vector<std::string> more_overrides, Validation validation) const {
  std::vector<std::string> changes = overrides;
  std::string name = recipe;
  if (!config_path.empty() || !config_name.empty()) {
    const bool recipe_given = recipe != RecipeArguments{}.recipe;
    if (recipe_given) changes.insert(changes.begin(), recipe);
    std::string file = config_name.empty() ? "config" : config_name;
    if (!file.ends_with(".yaml") && !file.ends_with(".yml")) file += ".yaml";
    name = (std::filesystem::path(config_path.empty() ? "." : config_path) / file).string();
  }
  for (std::string& change : more_overrides) changes.push_back(std::move(change));
  return resolve_recipe(name, changes, validation);
}

std::string RecipeArguments::text() const {
  std::string line;
  if (!config_path.empty()) line += fmt::format("--config-path {} ", shell_word(config_path));
  if (!config_name.empty()) line += fmt::format("--config-name {} ", shell_word(config_name));
  line += shell_word(recipe);
  for (const std::string& change : overrides) line += " " + shell_word(change);
  return line;
}

}  // namespace trireme
