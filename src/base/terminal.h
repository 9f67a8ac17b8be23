// What a file descriptor refers to: a terminal, with its columns and colour support, or a file or pipe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

struct Terminal {
  bool interactive = false;  // a terminal on which a line can be redrawn
  bool colour = false;
  int columns = 80;
};

// interactive: a terminal that can move its cursor (TERM is not "dumb"). colour: also needs NO_COLOR unset or empty.
Terminal detect_terminal(int descriptor);

// Returns the current width, since a terminal may be resized; `otherwise` if it is not a terminal.
int terminal_columns(int descriptor, int otherwise);

enum class Ink : uint8_t { bold, red, green, yellow };

// Returns the text in that ink if `terminal` shows colours; otherwise the plain text.
std::string inked(Ink ink, std::string_view text, const Terminal& terminal);

}  // namespace trireme
