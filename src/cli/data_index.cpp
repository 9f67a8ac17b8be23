// trireme data index and sample: show the samples of a training run before it starts.
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/data_commands.h"
#include "cli/data_text.h"
#include "cli/recipe_arguments.h"
#include "data/open/open_dataset.h"

namespace trireme {
namespace {

struct SampleArguments {
  RecipeArguments recipe;
  std::string split = "train";
  int64_t sample = 0;
  std::string tokenizer;
  bool json = false;
};

Settings settings_of(const SampleArguments& arguments) {
  Settings settings = arguments.recipe.resolve().settings;
  if (settings.model.vocab_size == 0)
    settings.model.vocab_size = default_vocabulary(settings.model.data, settings.model.tokenizer);
  return settings;
}

DatasetsBySplit open_quietly(const DataSettings& data, const DatasetRequest& request) {
  return open_datasets(data, request, [](const std::string& line) { fmt::print(stderr, "{}\n", line); });
}

int index(const SampleArguments& arguments) {
  const Settings settings = settings_of(arguments);
  if (settings.model.data.data_impl != DataImpl::mmap)
    throw UserError("model.data.data_impl={} keeps no index; only mmap does", name_of(settings.model.data.data_impl));
  const DatasetRequest request = training_request(settings);
  const Stopwatch watch;
  const DatasetsBySplit datasets = open_quietly(settings.model.data, request);
  const double seconds = watch.seconds();
  nlohmann::ordered_json json;
  for (const Split split : kAllSplits) {
    const auto& dataset = datasets[static_cast<size_t>(split)];
    if (dataset == nullptr) continue;
    json["splits"][name_of(split)] = {{"samples", dataset->size()},
                                      {"needed", *request.samples_needed[static_cast<size_t>(split)]}};
  }
  const std::string& folder = settings.model.data.index_mapping_dir;
  json["index_mapping_dir"] = folder.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(folder);
  json["seconds"] = seconds;
  if (arguments.json) {
    print_json(json);
    return kDone;
  }
  for (const auto& [name, split] : json["splits"].items())
    fmt::print("{}: {} samples, {} needed\n", name, split["samples"].get<int64_t>(), split["needed"].get<int64_t>());
  fmt::print("indices in {}, {}\n", folder.empty() ? "the folders of the datasets" : folder, format_seconds(seconds));
  return kDone;
}

Split split_named(const std::string& name) {
  for (const Split split : kAllSplits)
    if (name == name_of(split)) return split;
  throw UserError("--split {} is not known; use train, validation or test", name);
}

void print_sample(const SampleArguments& arguments, const Tokenizer* tokenizer, std::span<const int32_t> tokens,
                  std::span<const int32_t> targets) {
  if (arguments.json) {
    nlohmann::ordered_json json{
        {"sample", arguments.sample}, {"split", arguments.split}, {"tokens", tokens}, {"targets", targets}};
    if (tokenizer != nullptr) json["text"] = tokenizer->decode(tokens);
    print_json(json, kOneLine);
    return;
  }
  fmt::print("sample {} of {}, {} tokens; a target of {} takes no part in the loss\n", arguments.sample, arguments.split,
             tokens.size(), kMaskedTarget);
  fmt::print("tokens   {}\n", fmt::join(tokens, " "));
  fmt::print("targets  {}\n", fmt::join(targets, " "));
  if (tokenizer != nullptr) fmt::print("text     {}\n", one_line(*tokenizer, tokens, std::string::npos));
}

int sample(const SampleArguments& arguments) {
  const std::unique_ptr<Tokenizer> tokenizer = tokenizer_named(arguments.tokenizer);
  const Settings settings = settings_of(arguments);
  const Split split = split_named(arguments.split);
  DatasetRequest request = training_request(settings);
  for (const Split other : kAllSplits)
    if (other != split) request.samples_needed[static_cast<size_t>(other)].reset();
  std::optional<int64_t>& needed = request.samples_needed[static_cast<size_t>(split)];
  if (!needed && split == Split::validation) throw UserError("this recipe does not validate; set trainer.val_check_interval");
  if (!needed) needed = arguments.sample + 1;
  const DatasetsBySplit datasets = open_quietly(settings.model.data, request);
  const Dataset& dataset = *datasets[static_cast<size_t>(split)];
  if (arguments.sample >= dataset.size())
    throw UserError("--sample {}: {} has samples 0 to {}", arguments.sample, arguments.split, dataset.size() - 1);
  std::vector<int32_t> tokens(static_cast<size_t>(dataset.sequence())), targets(tokens.size());
  dataset.sample(arguments.sample, tokens, targets);
  print_sample(arguments, tokenizer.get(), tokens, targets);
  return kDone;
}

CLI::App* add_recipe_command(CLI::App& data, SampleArguments& arguments, const char* name, const char* help) {
  CLI::App* command = data.add_subcommand(name, help);
  arguments.recipe.add_to(*command);
  command->add_flag("--json", arguments.json, "print JSON");
  return command;
}

}  // namespace

void add_data_index_command(CLI::App& data, int& status) {
  auto arguments = std::make_shared<SampleArguments>();
  CLI::App* command = add_recipe_command(
      data, *arguments, "index",
      "Make the sample indices of a recipe, so that training starts at once.\n"
      "They are .npy files under the names that Megatron core or NeMo give them. What is there and fits is kept.\n\n"
      "examples:  trireme data index gpt3/126m model.data.data_impl=mmap model.data.data_prefix=[my_text_document]\n"
      "           trireme data index recipe.yaml trainer.max_steps=1000 model.data.index_mapping_dir=indices\n");
  command->callback([arguments, &status] { status = index(*arguments); });
}

void add_data_sample_command(CLI::App& data, int& status) {
  auto arguments = std::make_shared<SampleArguments>();
  CLI::App* command = add_recipe_command(data, *arguments, "sample",
                                         "Print sample number k of a recipe as the trainer will see it.\n\n"
                                         "examples:  trireme data sample demo --sample 7 --tokenizer bytes\n"
                                         "           trireme data sample gpt3/126m --split validation --json\n");
  command->add_option("-k,--sample", arguments->sample, "the number of the sample, in the order of training")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max() - 1));
  command->add_option("--split", arguments->split, "train, validation or test")->capture_default_str();
  command->add_option("--tokenizer", arguments->tokenizer, "show the text too; as for data encode");
  command->callback([arguments, &status] { status = sample(*arguments); });
}

}  // namespace trireme
