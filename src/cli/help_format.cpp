#include "cli/help_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/wrap.h"

namespace trireme {
namespace {

// Splits a command that is too long for a line with backslashes, as a shell reads it.
std::string wrapped_command(const std::string& line, int indent) {
  std::string text = wrapped(line, kPlainColumns - 2, indent);
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', end + 3)) text.insert(end, " \\");
  return text;
}

}  // namespace

std::string HelpFormat::make_description(const CLI::App* command) const {
  constexpr int kExampleIndent = 13;
  const std::string description = CLI::Formatter::make_description(command);
  const size_t examples = std::min(description.find("\nexample"), description.size());
  std::string text = wrapped(description.substr(0, examples), kPlainColumns, 0);
  for (size_t begin = examples; begin < description.size();) {
    const size_t end = std::min(description.find('\n', begin), description.size());
    text += wrapped_command(description.substr(begin, end - begin), kExampleIndent) + "\n";
    begin = end + 1;
  }
  return text;
}

std::string HelpFormat::make_subcommand(const CLI::App* command) const {
  const int column = static_cast<int>(get_column_width()) - 8;  // command names are short
  return wrapped(fmt::format("  {:<{}}{}", command->get_name(), column - 2, command_summary(*command)), kPlainColumns, column) +
         "\n";
}

std::string HelpFormat::make_option(const CLI::Option* option, bool is_positional) const {
  const int column = static_cast<int>(get_column_width());
  std::string name = "  " + make_option_name(option, is_positional) + make_option_opts(option);
  // A name that reaches into the column of the descriptions gets its own line.
  name += std::ssize(name) + 2 > column ? "\n" + std::string(static_cast<size_t>(column), ' ')
                                        : std::string(static_cast<size_t>(column) - name.size(), ' ');
  return wrapped(name + make_option_desc(option), kPlainColumns, column) + "\n";
}

std::string command_summary(const CLI::App& command) {
  const std::string description = command.get_description();
  return description.substr(0, description.find('\n'));
}

std::string command_examples(const CLI::App& command) {
  const std::string description = command.get_description();
  const size_t begin = description.find_first_not_of('\n', command_summary(command).size());
  return begin == std::string::npos ? "" : description.substr(begin);
}

}  // namespace trireme
