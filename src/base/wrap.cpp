#include "base/wrap.h"

#include <algorithm>

namespace trireme {
namespace {

// Returns where to break `line` so that its first part has at most `columns` characters: the position of a space, or npos.
size_t break_position(std::string_view line, size_t columns, size_t indent) {
  const size_t first_word = line.find_first_not_of(' ');
  const auto usable = [&](size_t position) {
    return position != std::string_view::npos && position > std::max(indent, first_word);
  };
  const std::string_view window = line.substr(0, columns + 1);
  if (const size_t fields = window.rfind("  "); usable(fields) && fields >= columns / 2) return fields;
  if (const size_t space = window.rfind(' '); usable(space)) return space;
  const size_t after_long_word = line.find(' ', std::max({columns, indent, first_word}));
  return usable(after_long_word) ? after_long_word : std::string_view::npos;
}

void append_wrapped(std::string& out, std::string line, size_t columns, size_t indent) {
  while (line.size() > columns) {
    const size_t position = break_position(line, columns, indent);
    if (position == std::string_view::npos) break;
    const size_t rest = line.find_first_not_of(' ', position);
    if (rest == std::string::npos) break;
    out.append(line, 0, line.find_last_not_of(' ', position) + 1);
    out += '\n';
    line.replace(0, rest, indent, ' ');
  }
  out += line;
}

}  // namespace

std::string wrapped(std::string_view text, int columns, int indent) {
  std::string out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    append_wrapped(out, std::string(text.substr(begin, end - begin)), static_cast<size_t>(columns), static_cast<size_t>(indent));
    if (end < text.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

}  // namespace trireme
