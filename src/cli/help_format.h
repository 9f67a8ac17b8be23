// How --help is laid out: lines that fit 80 columns, and a list of commands that says what each does in one line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace trireme {

class HelpFormat final : public CLI::Formatter {
 public:
  HelpFormat() { column_width(26); }
  std::string make_subcommand(const CLI::App* command) const override;  // its examples are in its own help
  std::string make_description(const CLI::App* command) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

// The first line of a command's description: what it does.
std::string command_summary(const CLI::App& command);

// The rest of it: examples and notes.
std::string command_examples(const CLI::App& command);

}  // namespace trireme
