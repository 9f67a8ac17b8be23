// trireme train: a training run.
#include <fmt/ranges.h>

#include <memory>

#include "cli/command.h"
#include "cli/recipe_arguments.h"
#include "config/runnable.h"
#include "config/settings_printer.h"
#include "data/open_dataset.h"
#include "train/fit.h"
#include "train/trainer.h"

namespace trireme {
namespace {

struct TrainArguments {
  RecipeArguments recipe;
  bool resume = false;
  bool dry_run = false;
  bool op_times = false;
};

nlohmann::json json_of(const Tree& value) {
  switch (value.kind()) {
    case Tree::Kind::null:
      return nullptr;
    case Tree::Kind::boolean:
      return value.boolean();
    case Tree::Kind::integer:
      return value.integer();
    case Tree::Kind::real:
      return value.real();
    case Tree::Kind::string:
      return value.string();
    default:
      return value.text();
  }
}

// The model's settings as log files name them: cfg/optim/lr.
void flatten(const Tree& tree, const std::string& path, LoggedParameters& out) {
  if (!tree.is_map()) {
    out.emplace_back(path, json_of(tree));
    return;
  }
  for (const Tree::Entry& entry : tree.map()) flatten(entry.value, path + "/" + entry.key, out);
}

LoggedParameters logged_parameters(const Settings& settings) {
  LoggedParameters parameters;
  const Tree tree = to_tree(settings);
  flatten(*tree.find("model"), "cfg", parameters);
  parameters.emplace_back("cfg/precision", settings.trainer.precision == Precision::bf16 ? "bf16-mixed" : "32-true");
  return parameters;
}

int train(const TrainArguments& arguments) {
  std::vector<std::string> overrides;
  if (arguments.resume) overrides.emplace_back("++exp_manager.resume_if_exists=true");
  ResolvedRecipe recipe = arguments.recipe.resolve(std::move(overrides));
  Settings& settings = recipe.settings;
  if (settings.model.vocab_size == 0) settings.model.vocab_size = default_vocabulary(settings.model.data);
  require_fit(settings, resources_here());
  require_runnable(settings);
  for (std::string& key : idle_settings(settings)) recipe.ignored_keys.push_back(std::move(key));
  Trainer trainer({.settings = settings,
                   .settings_text = to_yaml(settings),
                   .ignored_keys = recipe.ignored_keys,
                   .logged_parameters = logged_parameters(settings),
                   .command = "trireme train " + arguments.recipe.text(),
                   .op_times = arguments.op_times ? OpTimes::yes : OpTimes::no});
  if (arguments.dry_run) {
    trainer.announce();
    return kDone;
  }
  return trainer.run() == RunOutcome::stopped_by_signal ? kStoppedAfterSaving : kDone;
}

}  // namespace

void add_train_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train",
                                         "Train a model.\n\n"
                                         "examples:  trireme train demo\n"
                                         "           trireme train demo trainer.max_steps=50 trainer.precision=32\n"
                                         "           trireme train demo --resume\n");
  arguments->recipe.add_to(*command);
  command->add_flag("--resume", arguments->resume, "go on from the newest checkpoint of the newest run of this recipe");
  command->add_flag("--dry-run", arguments->dry_run,
                    "check the recipe and the data, say what would happen and how much memory it takes, and stop");
  command->add_flag("--op-times", arguments->op_times, "end with a table of where the time went, op by op");
  command->callback([arguments, &status] { status = train(*arguments); });
}

}  // namespace trireme
