// trireme man: manual pages generated from --help.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "base/build_info.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/help_format.h"
#include "cli/usage_error.h"

namespace trireme {
namespace {

// Escapes text for roff.
std::string roff(std::string_view text) {
  std::string out;
  bool at_line_start = true;
  for (const char c : text) {
    if (at_line_start && (c == '.' || c == '\'')) out += "\\&";
    at_line_start = c == '\n';
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

// Returns "trireme-data-prepare".
std::string page_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : fmt::format("{}-{}", page_name(*parent), command.get_name());
}

bool is_listed(const CLI::App& command) { return !command.get_group().empty(); }

std::string option_rows(const CLI::App& command, bool positional) {
  std::string rows;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() != positional) continue;
    const std::string value = !positional && option->get_type_size() > 0 ? " \\fI" + roff(option->get_type_name()) + "\\fR" : "";
    rows += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(option->get_name(positional, !positional)), value,
                        roff(option->get_description()));
  }
  return rows;
}

std::string command_rows(const CLI::App& command) {
  std::string rows;
  for (const CLI::App* below : command.get_subcommands({}))
    if (is_listed(*below))
      rows += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", roff(page_name(*below)), roff(command_summary(*below)));
  return rows;
}

std::string synopsis(const CLI::App& command) {
  std::string line = fmt::format("\\fB{}\\fR [OPTIONS]", roff(full_name(command)));
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = option->get_name(true, false) + (option->get_expected_max() > 1 ? "..." : "");
    line += option->get_required() ? " " + name : fmt::format(" [{}]", name);
  }
  return command.get_subcommands({}).empty() ? line : line + " COMMAND";
}

std::string man_page(const CLI::App& command) {
  std::string page =
      fmt::format(".TH \"{}\" 1 \"\" \"trireme {}\" \"Trireme\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n", page_name(command),
                  kVersion, roff(page_name(command)), roff(command_summary(command)), synopsis(command));
  const auto section = [&](const char* title, const std::string& rows) {
    if (!rows.empty()) page += fmt::format(".SH {}\n{}", title, rows);
  };
  section("ARGUMENTS", option_rows(command, true));
  section("OPTIONS", option_rows(command, false));
  section("COMMANDS", command_rows(command));
  if (const std::string examples = command_examples(command); !examples.empty())
    section("NOTES", fmt::format(".nf\n{}\n.fi\n", roff(examples)));
  section("EXIT STATUS",
          "0 done, 1 failed, 2 a mistake in the request, 75 stopped by a signal after saving: start again with \\-\\-resume.\n");
  return page;
}

void write_pages(const CLI::App& command, const std::filesystem::path& folder) {
  File::create(folder / (page_name(command) + ".1")).write(man_page(command));
  for (const CLI::App* below : command.get_subcommands({}))
    if (is_listed(*below)) write_pages(*below, folder);
}

struct ManArguments {
  std::vector<std::string> words;
  std::string output;
};

void print_or_write(const CLI::App& app, const ManArguments& arguments) {
  if (!arguments.output.empty()) {
    std::filesystem::create_directories(arguments.output);
    return write_pages(app, arguments.output);
  }
  const CLI::App* command = &app;
  for (const std::string& word : arguments.words) {
    command = find_subcommand(*command, word);
    if (command == nullptr) throw UserError("{} is not a command; trireme --help lists them", word);
  }
  fmt::print("{}", man_page(*command));
}

}  // namespace

void add_man_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<ManArguments>();
  CLI::App* command = app.add_subcommand("man",
                                         "Print the manual page of a command, or write those of all.\n\n"
                                         "examples:  trireme man train | man -l -\n"
                                         "           trireme man --output share/man/man1\n");
  command->add_option("command", arguments->words, "the command, such as train or data prepare; none: the program itself");
  command->add_option("--output", arguments->output, "write the pages of all commands into this folder");
  command->callback([arguments, &app, &status] {
    print_or_write(app, *arguments);
    status = kDone;
  });
}

}  // namespace trireme
