// What a file descriptor leads to: a terminal, with how many columns and whether in colour, or a file or pipe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

struct Terminal {
  bool interactive = false;  // a person watches: a line may be drawn again
  bool colour = false;
  int columns = 80;
};

// interactive: a terminal that can move its cursor (TERM is not "dumb"). colour: also needs NO_COLOR unset or empty.
Terminal detect_terminal(int descriptor);

// The width now, for a terminal that may have been resized; `otherwise` where there is none.
int terminal_columns(int descriptor, int otherwise);

enum class Ink : uint8_t { bold, red, green, yellow };

// The text in that ink where `terminal` shows colours, else the text alone.
std::string inked(Ink ink, std::string_view text, const Terminal& terminal);

}  // namespace trireme
