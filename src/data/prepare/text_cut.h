// Places where a text can be cut without changing its tokens, so that long documents are encoded piece by piece.
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme::prepare {

enum class CutText : uint8_t { no, yes };

// A safe place is after the line feed in "x\nA", x a printable ASCII character and A an ASCII letter. In every known pattern a
// word ends there: the line feed is the whole run of white space, and no word that may begin before a letter begins with a line
// feed. Tokenizers say with can_be_cut_at_lines whether this is so for them.
size_t last_safe_cut(std::string_view text);                // 0: there is none
size_t next_safe_cut(std::string_view text, size_t after);  // the size of the text: there is none

}  // namespace trireme::prepare
