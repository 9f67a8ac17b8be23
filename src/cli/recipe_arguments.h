// How a command takes a recipe: a name or path plus overrides, in Hydra's syntax.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "train/target_plan.h"

namespace trireme {

struct RecipeArguments {
  std::string recipe = "demo";
  std::vector<std::string> overrides;
  std::string from;                      // a model whose architecture and weights are taken; empty: those of the recipe
  std::string config_path, config_name;  // Hydra's options to name a file

  bool verbose = false;
  std::string gpu;  // the GPU to compare memory with; empty: the recipe's own

  void add_to(CLI::App& command);
  ResolvedRecipe resolve(std::vector<std::string> more_overrides = {}, Validation validation = Validation::now) const;
  const GpuKind& gpu_kind() const { return gpu.empty() ? gpu_of_recipe(recipe) : find_gpu(gpu); }
  Detail detail() const { return verbose ? Detail::list : Detail::count; }
  std::string text() const;  // the same arguments as a user would type them
};

}  // namespace trireme
