// Small text operations.
#pragma once

#include <string_view>

namespace trireme {

// Returns `text` without the characters of `blanks` at both ends.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " ") {
  const size_t begin = text.find_first_not_of(blanks);
  return begin == text.npos ? std::string_view{} : text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

}  // namespace trireme
