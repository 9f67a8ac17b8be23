// Name patterns: * and ? within a part, ** across parts, [a-z] and [!a-z] for one character.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

bool is_glob(std::string_view text);

// Returns the literal prefix of a pattern: everything before the first special character.
std::string literal_prefix_of_glob(std::string_view pattern);

bool glob_matches(std::string_view pattern, std::string_view name);

}  // namespace trireme
