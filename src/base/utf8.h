// UTF-8 that may be invalid.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// Returns how many leading bytes are complete, well-formed characters (Unicode's definition: no surrogates, nothing overlong,
// nothing above U+10FFFF).
size_t valid_utf8_prefix(std::string_view text);

// UserError, starting with `name`, that quotes the first byte that is not UTF-8 or is a NUL, which would end a file name. Recipes
// are text: they are stored in checkpoints and logs, which contain only UTF-8.
void require_utf8(std::string_view text, const std::string& name);

// Writes the text with U+FFFD for every ill-formed part, like Python's errors="replace": one per maximal truncated character.
// Returns the number of replacements.
int64_t replace_invalid_utf8(std::string_view text, std::string& out);

// Returns the text with invalid parts replaced; for file names in text that must be UTF-8.
std::string as_utf8(std::string_view text);

}  // namespace trireme
