// How a command takes a recipe: its name or path and changes to it, in the forms that Hydra's users know.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "config/recipe.h"

namespace trireme {

struct RecipeArguments {
  std::string recipe = "demo";
  std::vector<std::string> overrides;
  std::string config_path, config_name;  // Hydra's way to name a file

  void add_to(CLI::App& command);
  ResolvedRecipe resolve(std::vector<std::string> more_overrides = {}, Validation validation = Validation::now) const;
  std::string text() const;  // as a user would type it again
};

}  // namespace trireme
