// Recipes by name: finding them, building them on one another, and turning one into settings.
#pragma once

#include <string>
#include <vector>

#include "config/idle_keys.h"
#include "config/launcher_request.h"
#include "config/settings.h"
#include "config/tree.h"

namespace trireme {

// The folders with recipes that come with the program, those that exist, in the order in which they are searched.
std::vector<std::string> recipe_folders();

struct ShippedRecipe {
  std::string name;  // as a user types it: gpt3/126m
  std::string path;
  std::string summary;  // the comment in its first line
};
// Files whose name starts with _ only serve others and are not recipes.
std::vector<ShippedRecipe> shipped_recipes();

// The comment in the first line of a shipped file, recipe or not; empty if there is no such file or comment.
std::string shipped_summary(const std::string& name);

// The recipe with everything it extends, references not yet resolved. A path ends with .yaml or .yml, or starts with / or a dot;
// anything else is first looked up among the shipped recipes.
//
// `extends: other` or `extends: [one, two]` at the top of a file builds on other recipes: they are merged in their order and the
// file over them. Names are looked up beside the file first.
Tree load_recipe(const std::string& name_or_path);

struct ResolvedRecipe {
  Tree tree;                          // overrides applied, references resolved
  Settings settings;                  // read and, unless the caller does so later, validated
  std::vector<IdleKey> ignored_keys;  // known keys without effect here
  LauncherRequest launcher;           // what the launcher's settings ask for

  // Throws a UserError if the launcher's settings ask for no training, or if the data is one that only LitGPT has.
  void require_training() const;
  // What a user should know of it, a line each: the keys without effect, the launcher's settings.
  std::vector<std::string> notices(Detail detail) const;
};

enum class Validation : uint8_t { now, by_the_caller };
ResolvedRecipe resolve_recipe(const std::string& name_or_path, const std::vector<std::string>& overrides,
                              Validation validation = Validation::now);

}  // namespace trireme
