// Text broken into lines that fit a width.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// The width of lines that are not written to a terminal, and the least that help and reports are laid out for.
inline constexpr int kPlainColumns = 80;

// Breaks each line of `text` at spaces so that it has at most `columns` characters; the lines that this adds begin with `indent`
// spaces. Two spaces separate fields, so a line breaks there if that leaves it at least half full. A word is never broken.
std::string wrapped(std::string_view text, int columns, int indent);

}  // namespace trireme
