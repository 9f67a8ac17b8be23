// The commands that README, docs and --help show, as a reader would copy them.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace trireme {

struct DocumentedCommand {
  std::string place;  // "docs/train.md:6"
  std::string text;   // without the prompt; lines that end with a backslash are joined
  std::string error;  // the line below it with which it fails, if it does
};

inline bool names_the_program(const std::string& line) {
  for (size_t at = line.find("trireme "); at != std::string::npos; at = line.find("trireme ", at + 1)) {
    const bool is_word = at == 0 || line[at - 1] == ' ' || line[at - 1] == '/' || line[at - 1] == '(';
    if (is_word && line.find('#') > at) return true;
  }
  return false;
}

// Of the lines of a code block that begins at line `first` of `file`. Where one begins with "$ ", the others are output.
inline std::vector<DocumentedCommand> commands_of_block(const std::vector<std::string>& lines, const std::string& file,
                                                        size_t first) {
  std::vector<DocumentedCommand> commands;
  const bool has_prompt = std::ranges::any_of(lines, [](const std::string& line) { return line.starts_with("$ "); });
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string text = lines[i];
    if (has_prompt != text.starts_with("$ ")) continue;
    if (has_prompt) text.erase(0, 2);
    const size_t line = first + i;
    while (text.ends_with('\\') && i + 1 < lines.size()) text = text.substr(0, text.size() - 1) + lines[++i];
    if (!names_the_program(text)) continue;
    std::string error;
    for (size_t below = i + 1; has_prompt && below < lines.size() && !lines[below].starts_with("$ "); ++below)
      if (lines[below].starts_with("trireme: ")) error = lines[below];
    commands.push_back({file + ":" + std::to_string(line), text, error});
  }
  return commands;
}

// Code within a line that begins as a command does, as in tables.
inline std::vector<DocumentedCommand> commands_of_line(const std::string& line, const std::string& place) {
  std::vector<DocumentedCommand> commands;
  for (size_t begin = line.find('`'); begin != std::string::npos;) {
    const size_t end = line.find('`', begin + 1);
    if (end == std::string::npos) break;
    const std::string text = line.substr(begin + 1, end - begin - 1);
    if (text.starts_with("build/trireme ") || text.starts_with("mpirun ")) commands.push_back({place, text, ""});
    begin = line.find('`', end + 1);
  }
  return commands;
}

// Of a page: fenced blocks, except those that name a language, and tables.
inline std::vector<DocumentedCommand> commands_of_page(const std::filesystem::path& path, const std::string& name) {
  std::vector<DocumentedCommand> commands;
  std::ifstream file(path);
  std::vector<std::string> block;
  bool in_block = false, is_plain = false;
  size_t number = 0, first = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (!line.starts_with("```")) {
      if (in_block)
        block.push_back(line);
      else if (line.starts_with("|"))
        std::ranges::copy(commands_of_line(line, name + ":" + std::to_string(number)), std::back_inserter(commands));
      continue;
    }
    if (in_block && is_plain) std::ranges::copy(commands_of_block(block, name, first), std::back_inserter(commands));
    in_block = !in_block;
    is_plain = line == "```";
    first = number + 1;
    block.clear();
  }
  return commands;
}

// Of a help text: the lines after "example:" or "examples:".
inline std::vector<DocumentedCommand> commands_of_help(const std::string& help, const std::string& command) {
  std::vector<std::string> block;
  std::istringstream text(help);
  bool in_examples = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("example")) {
      in_examples = true;
      line.erase(0, line.find(':') + 1);
    }
    if (in_examples && (line.empty() || line.starts_with("Usage"))) break;
    if (in_examples) block.push_back(line.substr(std::min(line.find_first_not_of(' '), line.size())));
  }
  return commands_of_block(block, command + " --help", 1);
}

}  // namespace trireme
