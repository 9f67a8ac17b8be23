// trireme config and trireme recipes: what a recipe comes to, and which there are.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/command.h"
#include "config/recipe.h"
#include "config/settings_printer.h"

namespace trireme {

void add_config_command(CLI::App& app, int& status) {
  struct Arguments {
    std::string recipe = "demo";
    std::vector<std::string> overrides;
    bool keys = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("config",
                                         "Print a recipe with everything resolved, or the keys that recipes can have.\n\n"
                                         "examples:  trireme config gpt3/126m model.num_layers=24\n"
                                         "           trireme config --keys\n");
  command->add_option("recipe", arguments->recipe, "a shipped recipe or the path of a YAML file")->capture_default_str();
  command->add_option("overrides", arguments->overrides, "settings as key=value");
  command->add_flag("--keys", arguments->keys, "list every setting: key, default, what it does, what it accepts");
  command->callback([arguments, &status] {
    if (arguments->keys)
      fmt::print("{}", settings_help());
    else
      fmt::print("{}", to_yaml(resolve_recipe(arguments->recipe, arguments->overrides).settings));
    status = kDone;
  });
}

void add_recipes_command(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("recipes", "List the recipes that come with the program.\n\nexample:  trireme recipes\n");
  command->callback([&status] {
    const auto recipes = shipped_recipes();
    size_t width = 0;
    for (const ShippedRecipe& recipe : recipes) width = std::max(width, recipe.name.size());
    for (const ShippedRecipe& recipe : recipes) fmt::print("{:<{}}  {}\n", recipe.name, width, recipe.summary);
    status = kDone;
  });
}

}  // namespace trireme
