#include "cli/usage_error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "config/settings_fields.h"
#include "config/suggestions.h"

namespace trireme {
namespace {

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

bool takes_recipe(const CLI::App& command) { return command.get_option_no_throw("recipe") != nullptr; }

// Returns the setting that `--max_steps 3` means: the one whose key, or its last part, is the option's name. Empty if none or
// several match.
std::string setting_meant_by(std::string_view name) {
  std::string spelling(name);
  std::ranges::replace(spelling, '-', '_');
  std::string found;
  for (const Field& field : settings_fields()) {
    if (field.key == spelling) return field.key;
    if (std::string_view(field.key).substr(field.key.rfind('.') + 1) != spelling) continue;
    if (!found.empty()) return {};
    found = field.key;
  }
  return found;
}

// Returns the word after `option` unless it is another option; "..." if there is none.
std::string_view value_after(std::span<char* const> words, std::string_view option) {
  const auto at = std::ranges::find(words, option, [](const char* word) { return std::string_view(word); });
  if (at == words.end() || at + 1 == words.end() || std::string_view(at[1]).starts_with("--")) return "...";
  return at[1];
}

std::string unknown_option_text(const CLI::App& command, std::span<char* const> words, const std::string& word) {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const std::string text = fmt::format("{} is not an option of {}", name, full_name(command));
  const std::string setting = takes_recipe(command) && name.starts_with("--") ? setting_meant_by(name.substr(2)) : "";
  if (setting.empty()) return text + did_you_mean(name, option_names(command));
  const std::string_view value =
      equals == std::string::npos ? value_after(words, name) : std::string_view(word).substr(equals + 1);
  return fmt::format("{}; write {}={}", text, setting, value);
}

}  // namespace

const CLI::App* find_subcommand(const CLI::App& group, std::string_view name) {
  const std::vector<const CLI::App*> below = group.get_subcommands({});
  const auto named = std::ranges::find(below, name, &CLI::App::get_name);
  return named == below.end() ? nullptr : *named;
}

const CLI::App& named_command(const CLI::App& app, std::span<char* const> words) {
  const CLI::App* command = &app;
  for (const std::string_view word : words) {
    const CLI::App* below = find_subcommand(*command, word);
    if (below == nullptr) break;
    command = below;
  }
  return *command;
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : fmt::format("{} {}", full_name(*parent), command.get_name());
}

void require_known_command(const CLI::App& app, std::span<char* const> words) {
  const CLI::App* group = &app;
  for (const std::string_view word : words) {
    const std::vector<const CLI::App*> commands = group->get_subcommands({});
    if (commands.empty() || word.starts_with('-')) return;
    const CLI::App* named = find_subcommand(*group, word);
    if (named == nullptr && group->get_require_subcommand_min() == 0) return;  // launch FILE
    if (named == nullptr) {
      std::vector<std::string> names;
      for (const CLI::App* command : commands)
        if (!command->get_group().empty()) names.push_back(command->get_name());
      const std::string meant = did_you_mean(word, names);
      throw CLI::ParseError(fmt::format("{} is not a command{}", word,
                                        meant.empty() ? fmt::format("; there are {}", fmt::join(names, ", ")) : meant),
                            kUserError);
    }
    group = named;
  }
}

std::string usage_error_text(const CLI::App& app, std::span<char* const> words, const CLI::ParseError& error) {
  const CLI::App& command = named_command(app, words);
  std::string text = error.what();
  // A misspelt option is the cause of the other errors, so it is reported first.
  const std::vector<std::string> unexpected = app.remaining(true);
  const auto option = std::ranges::find_if(unexpected, [](const std::string& word) { return word.starts_with('-'); });
  if (option != unexpected.end())
    text = unknown_option_text(command, words, *option);
  else if (!unexpected.empty() && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
    text = fmt::format("{}: {} takes no further argument", unexpected.front(), full_name(command));
  return fmt::format("{}; see {} --help", text, full_name(command));
}

}  // namespace trireme
