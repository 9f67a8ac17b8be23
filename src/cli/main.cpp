#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "base/build_info.h"
#include "base/error.h"
#include "cli/command.h"
#include "comm/world.h"

namespace {

// The list of commands says what each does; its examples are in its own help.
class ShortList final : public CLI::Formatter {
  std::string make_subcommand(const CLI::App* command) const override {
    const std::string description = command->get_description();
    const std::string first_line = description.substr(0, description.find('\n'));
    return fmt::format("  {:<{}}{}\n", command->get_name(), get_column_width() - 2, first_line);
  }
};

// A first word that is no command would be answered with "a subcommand is required".
void require_known_command(const CLI::App& app, std::span<char* const> words) {
  const CLI::App* group = &app;
  for (const std::string_view word : words) {
    const std::vector<const CLI::App*> commands = group->get_subcommands({});
    if (commands.empty() || word.starts_with('-')) return;
    const auto named = std::ranges::find(commands, word, &CLI::App::get_name);
    if (named == commands.end()) {
      std::vector<std::string> names;
      names.reserve(commands.size());
      for (const CLI::App* command : commands) names.push_back(command->get_name());
      throw CLI::ParseError(fmt::format("{} is not a command; there are {}", word, fmt::join(names, ", ")), trireme::kUserError);
    }
    group = *named;
  }
}

int run(int argc, char** argv) {
  CLI::App app("trireme trains and benchmarks GPT-3-class language models.\n\nexample:  trireme train demo", "trireme");
  app.set_version_flag("--version", fmt::format("trireme {} ({})", trireme::kVersion, trireme::kCommit));
  app.require_subcommand(1);
  app.formatter(std::make_shared<ShortList>());
  int status = trireme::kDone;
  trireme::add_train_command(app, status);
  trireme::add_generate_command(app, status);
  trireme::add_config_command(app, status);
  trireme::add_recipes_command(app, status);
  trireme::add_data_command(app, status);
  trireme::add_metrics_command(app, status);
  trireme::add_report_command(app, status);
  trireme::add_export_command(app, status);
  trireme::add_import_command(app, status);
  try {
    require_known_command(app, std::span(argv, static_cast<size_t>(argc)).subspan(1));
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    if (trireme::rank_in_environment() != 0) {
      // Every rank finds the same mistake; the first says it, and must not be killed because this one left before.
      std::this_thread::sleep_for(std::chrono::seconds(1));
      return trireme::kUserError;
    }
    throw trireme::UserError("{}; see trireme --help", error.what());
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const auto complain = [](const char* text, int status) {
    fmt::print(stderr, "trireme: {}\n", text);
    return status;
  };
  try {
    return run(argc, argv);
  } catch (const trireme::UserError& error) {
    return complain(error.what(), trireme::kUserError);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", trireme::kFailed);
  } catch (const std::exception& error) {
    return complain(error.what(), trireme::kFailed);
  }
}
