// What to say about a command line that cannot be used: what is wrong, what was probably meant, and whose help says more.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// The command of that name directly below `group`; nullptr if there is none.
const CLI::App* find_subcommand(const CLI::App& group, std::string_view name);

// The command that the words name, as deep as they go: `app`, its subcommand `data`, or that one's `prepare`.
const CLI::App& named_command(const CLI::App& app, std::span<char* const> words);

// "trireme data prepare"
std::string full_name(const CLI::App& command);

// Throws CLI::ParseError for a word where a command is expected and that is not one; the parser itself would only say that a
// command is missing.
void require_known_command(const CLI::App& app, std::span<char* const> words);

// One line about a command line that `app` refused with `error`.
std::string usage_error_text(const CLI::App& app, std::span<char* const> words, const CLI::ParseError& error);

}  // namespace trireme
