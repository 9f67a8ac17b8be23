// Recipes by name: finds them, composes them, and reads them into settings.
#pragma once

#include <string>
#include <vector>

#include "config/idle_keys.h"
#include "config/launcher_request.h"
#include "config/settings.h"
#include "config/tree.h"

namespace trireme {

// The existing folders of shipped recipes, in search order.
std::vector<std::string> recipe_folders();

struct ShippedRecipe {
  std::string name;  // as a user types it: gpt3/126m
  std::string path;
  std::string summary;  // the comment in its first line
};
// All shipped recipes. Files whose name starts with _ are only included by others and are not recipes.
std::vector<ShippedRecipe> shipped_recipes();

// The comment in the first line of a shipped file, recipe or not; empty without such a file or comment.
std::string shipped_summary(const std::string& name);

// Returns the recipe with everything it extends; references are not yet resolved. A path ends with .yaml or .yml, or starts with
// / or a dot. Anything else is first looked up among the shipped recipes.
//
// `extends: other` or `extends: [one, two]` at the top of a file names other recipes. They are merged in their order, and the
// file over them. Names are looked up in the folder of the file first.
Tree load_recipe(const std::string& name_or_path);

struct ResolvedRecipe {
  Tree tree;                          // overrides applied, references resolved
  Settings settings;                  // read and, unless the caller validates later, validated
  std::vector<IdleKey> ignored_keys;  // known keys without effect here
  LauncherRequest launcher;           // what the launcher's settings request
  Tree launcher_settings;             // the launcher's keys beside the recipe: cluster, env_vars, ...; null without a launcher

  // Throws a UserError if the launcher's settings request no training, or if only LitGPT can provide the data.
  void require_training() const;
  // Notices for the user, one line each: the keys without effect, the launcher's settings.
  std::vector<std::string> notices(Detail detail) const;
};

enum class Validation : uint8_t { now, by_the_caller };
ResolvedRecipe resolve_recipe(const std::string& name_or_path, const std::vector<std::string>& overrides,
                              Validation validation = Validation::now);

}  // namespace trireme
