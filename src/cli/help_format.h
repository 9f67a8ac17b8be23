// The layout of --help: lines of at most 80 columns, and a list of commands with one line each.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace trireme {

class HelpFormat final : public CLI::Formatter {
 public:
  HelpFormat() { column_width(26); }
  std::string make_subcommand(const CLI::App* command) const override;  // without examples, which are in the command's own help
  std::string make_description(const CLI::App* command) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

// Returns the first line of a command's description.
std::string command_summary(const CLI::App& command);

// Returns the rest of the description: examples and notes.
std::string command_examples(const CLI::App& command);

}  // namespace trireme
