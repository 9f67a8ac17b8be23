// How a command takes a recipe: its name or path and changes to it, in the forms that Hydra's users know.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "train/paper_run.h"

namespace trireme {

struct RecipeArguments {
  std::string recipe = "demo";
  std::vector<std::string> overrides;
  std::string config_path, config_name;  // Hydra's way to name a file

  bool verbose = false;
  std::string gpu;  // the one that memory is compared with; empty: the one the recipe is made for

  void add_to(CLI::App& command);
  ResolvedRecipe resolve(std::vector<std::string> more_overrides = {}, Validation validation = Validation::now) const;
  const GpuKind& gpu_kind() const { return gpu.empty() ? gpu_of_recipe(recipe) : find_gpu(gpu); }
  Detail detail() const { return verbose ? Detail::list : Detail::count; }
  std::string text() const;  // as a user would type it again
};

}  // namespace trireme
