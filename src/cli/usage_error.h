// Error text for an invalid command line: what is wrong, what was probably meant, and which help to read.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// Returns the command of that name directly below `group`, or nullptr.
const CLI::App* find_subcommand(const CLI::App& group, std::string_view name);

// Returns the deepest command that the words name: `app`, its subcommand `data`, or `prepare` below that.
const CLI::App& named_command(const CLI::App& app, std::span<char* const> words);

// Returns "trireme data prepare".
std::string full_name(const CLI::App& command);

// Throws CLI::ParseError for a word that is not a command where a command is expected; the parser itself would only say that a
// command is missing.
void require_known_command(const CLI::App& app, std::span<char* const> words);

// Returns one line about a command line that `app` rejected with `error`.
std::string usage_error_text(const CLI::App& app, std::span<char* const> words, const CLI::ParseError& error);

}  // namespace trireme
