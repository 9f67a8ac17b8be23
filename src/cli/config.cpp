// trireme config: prints a resolved recipe.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/config_schedule.h"
#include "cli/recipe_arguments.h"
#include "config/runnable.h"
#include "config/settings_printer.h"
#include "config/tree_json.h"
#include "config/validate.h"
#include "data/open/open_dataset.h"
#include "train/target_plan.h"

namespace trireme {

namespace {

struct ConfigArguments {
  RecipeArguments recipe;
  bool keys = false;
  bool markdown = false;
  bool json = false;
  bool schedule = false;
};

// Returns why the recipe cannot run here; empty if it can.
std::string missing_to_run(const ResolvedRecipe& recipe) {
  try {
    recipe.require_training();
    validate_ranks(recipe.settings);
    require_runnable(recipe.settings, 1);
  } catch (const UserError& need) {
    return need.what();
  }
  return {};
}

// Returns null unless the number of ranks is a multiple of the model-parallel size.
nlohmann::ordered_json data_parallel_json(const Settings& settings) {
  if (settings.ranks() % settings.model_ranks() != 0) return nullptr;
  return settings.data_parallel_size();
}

// Returns the memory per rank, or nothing if the ranks do not fit the recipe or its tokenizer cannot be read here.
std::optional<TargetPlan> memory_of(const ConfigArguments& arguments, Settings settings) {
  const GpuKind& gpu = arguments.recipe.gpu_kind();
  ModelSettings& model = settings.model;
  try {
    validate_ranks(settings);
    if (model.vocab_size == 0) model.vocab_size = default_vocabulary(model.data, model.tokenizer);
  } catch (const UserError&) {
    return std::nullopt;
  }
  return plan_for_target(settings, gpu);
}

// Prints an invalid recipe too, so that the user sees its values; the errors follow.
void print_resolved(const ConfigArguments& arguments) {
  ResolvedRecipe recipe = arguments.recipe.resolve({}, Validation::by_the_caller);
  if (!arguments.json) fmt::print("{}", to_yaml(recipe.settings));
  std::fflush(stdout);
  validate_recipe(recipe.settings);
  for (IdleKey& key : idle_settings(recipe.settings)) recipe.ignored_keys.push_back(std::move(key));
  const std::string missing = missing_to_run(recipe);
  const std::optional<TargetPlan> memory = memory_of(arguments, recipe.settings);
  if (arguments.json) {
    nlohmann::ordered_json report;
    report["recipe"] = arguments.recipe.recipe;
    report["settings"] = to_json(to_tree(recipe.settings));
    report["ranks"] = recipe.settings.ranks();
    report["data_parallel_size"] = data_parallel_json(recipe.settings);
    report["memory"] = memory ? json_of(*memory) : nlohmann::ordered_json(nullptr);
    report["without_effect"] = names_of(recipe.ignored_keys);
    report["launcher"] = recipe.launcher.text();
    report["needs"] = missing.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(missing);
    print_json(report);
    return;
  }
  if (memory) fmt::print(stderr, "{}\n", text_of(*memory, recipe.settings));
  for (const std::string& line : recipe.notices(arguments.recipe.detail())) fmt::print(stderr, "{}\n", line);
  if (!missing.empty()) fmt::print(stderr, "to run it here: {}\n", missing);
}

}  // namespace

void add_config_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<ConfigArguments>();
  CLI::App* command = app.add_subcommand("config",
                                         "Print a recipe with everything resolved, or the keys that recipes can have.\n\n"
                                         "examples:  trireme config gpt3/126m model.num_layers=24\n"
                                         "           trireme config training=gpt3/126m training.trainer.max_steps=200\n"
                                         "           trireme config my/megatron_gpt_config.yaml model.data.data_impl=mock\n"
                                         "           trireme config --config-path conf training=gpt3/5b data_dir=/data \\\n"
                                         "               base_results_dir=/results\n"
                                         "           trireme config gpt3/mlperf --schedule model.global_batch_size=32\n"
                                         "           trireme config --keys\n\n"
                                         "changes:   a.b=c sets a key, +a.b=c adds one, ++a.b=c does either,\n"
                                         "           ~a.b removes one; a value is a number, a word, null, [a, b],\n"
                                         "           {key: value} or ${other.key}\n");
  arguments->recipe.add_to(*command);
  command->add_flag("--schedule", arguments->schedule,
                    "draw what each pipeline rank does in a step, in units of one forward pass of a chunk");
  command->add_flag("--keys", arguments->keys, "list every setting: key, default, what it does, what it accepts");
  command->add_flag("--markdown", arguments->markdown, "the same as a page of documentation");
  command->add_flag("--json", arguments->json, "print JSON, also of --keys");
  command->callback([arguments, &status] {
    if (arguments->markdown)
      fmt::print("{}", settings_page());
    else if (arguments->keys)
      fmt::print("{}", arguments->json ? json_text(settings_json()) + "\n" : settings_help());
    else if (arguments->schedule)
      print_schedule(arguments->recipe.resolve().settings, arguments->json ? ScheduleFormat::json : ScheduleFormat::drawing);
    else
      print_resolved(*arguments);
    status = kDone;
  });
}

}  // namespace trireme
