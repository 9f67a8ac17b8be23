// Wraps text to a width.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// The width of lines that are not written to a terminal, and the minimum width for help and reports.
inline constexpr int kPlainColumns = 80;

// Breaks each line of `text` at spaces so that it has at most `columns` characters; added lines start with `indent` spaces. Two
// spaces separate fields, so a line breaks there if that leaves it at least half full. Words are never broken.
std::string wrapped(std::string_view text, int columns, int indent);

}  // namespace trireme
