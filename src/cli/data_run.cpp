// trireme data run: make a dataset by name, from the download to the tokens.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "base/json.h"
#include "cli/data_commands.h"
#include "data/recipe/run_recipe.h"
#include "fetch/progress_bar.h"
#include "train/stop_signal.h"

namespace trireme {
namespace {

struct RunArguments {
  std::string recipe, output, files, sha256;
  std::vector<std::string> overrides, urls;
  RecipeRun run;
  bool keep_downloads = false, dry_run = false, json = false;
};

int run_recipe(RunArguments arguments) {
  RecipeRun& run = arguments.run;
  run.output = arguments.output;
  run.recipe = load_data_recipe(arguments.recipe, arguments.overrides, run.output);
  if (!arguments.urls.empty()) run.recipe.download_urls = arguments.urls;
  if (!arguments.files.empty()) run.recipe.file_numbers = arguments.files;
  if (arguments.keep_downloads) run.recipe.rm_downloaded = false;
  if (!arguments.sha256.empty()) run.fetch.checksums = Checksums::read(arguments.sha256);
  if (arguments.dry_run) run.dry_run = prepare::DryRun::yes;
  const StopSignal signal;
  ProgressBar bar(STDERR_FILENO);
  const RecipeHooks hooks{.stop = [&] { return signal.received() != nullptr; },
                          .tell = [](const std::string& line) { fmt::print(stderr, "{}\n", line); },
                          .show_download =
                              [&](const FetchProgress* progress) {
                                if (progress != nullptr)
                                  bar.show(*progress);
                                else
                                  bar.clear();
                              }};
  const RecipeResult result = run_data_recipe(run, hooks);
  if (arguments.json) print_json(result.report);
  if (result.outcome == RecipeOutcome::stopped) {
    fmt::print(stderr, "stopped; the same command continues from here\n");
    return kStoppedAfterSaving;
  }
  return result.outcome == RecipeOutcome::failed ? kFailed : kDone;
}

}  // namespace

void add_data_run_command(CLI::App& data, int& status) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = data.add_subcommand(
      "run",
      "Make a dataset by its name: download its files and vocabulary, and tokenize them.\n"
      "Says beforehand what it will read, write and take. A run that was stopped or killed continues when the same command is "
      "given "
      "again.\n\n"
      "examples:  trireme data run data/pile --files 0-1 --output pile --dry-run\n"
      "           trireme data run data/openwebtext --output owt --keep-downloads\n"
      "           trireme data run data/pile --url https://mirror/pile/train --url s3://bucket/pile --output pile\n");
  command->add_option("recipe", arguments->recipe, "data/pile, data/openwebtext, or the path of a YAML file")->required();
  command->add_option("overrides", arguments->overrides, "keys of the recipe as key=value");
  command->add_option("--output", arguments->output, "the folder for everything")->required();
  command->add_option("--files", arguments->files, "only these of its files: 0-29 or 0,3,5-7");
  command->add_flag("--keep-downloads", arguments->keep_downloads, "keep the files when their tokens are there");
  command->add_option("--url", arguments->urls, "folders that have the files, instead of the recipe's; tried in order")
      ->allow_extra_args(false);
  command->add_option("--mirror", arguments->run.fetch.mirrors, "folders to try after those of the recipe")
      ->allow_extra_args(false);
  command->add_option("--sha256", arguments->sha256, "a file of checksums as sha256sum writes it");
  command->add_option("--parallel", arguments->run.fetch.download.parallel, "connections at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  command->add_option("--workers", arguments->run.workers, "threads that tokenize; 0: one for every core")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096));
  command->add_flag("--dry-run", arguments->dry_run, "say what it would take, and stop");
  command->add_flag("--json", arguments->json, "print the report as JSON");
  command->callback([arguments, &status] { status = run_recipe(*arguments); });
}

}  // namespace trireme
