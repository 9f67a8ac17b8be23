// UTF-8 that may be broken.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// How many bytes from the start are whole, well-formed characters (Unicode's definition: no surrogates, nothing overlong, nothing
// above U+10FFFF).
size_t valid_utf8_prefix(std::string_view text);

// Throws a UserError that begins with `name` and quotes the first byte that is not UTF-8, or a NUL, which would end the name of a
// file. Recipes are text: they are stored in checkpoints and logs, which hold UTF-8 only.
void require_utf8(std::string_view text, const std::string& name);

// The text with U+FFFD for every ill-formed part, as Python's errors="replace" has it: one for each longest beginning of a
// character. Returns how many were put in.
int64_t replace_invalid_utf8(std::string_view text, std::string& out);

// The same as a new text; for names of files in text that must be UTF-8.
std::string as_utf8(std::string_view text);

}  // namespace trireme
