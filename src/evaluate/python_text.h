// Operations on text with the meaning that they have for a Python str, which the definitions of evaluation tasks use: characters
// are code points, and white space is Unicode's and four control characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

std::string python_strip(std::string_view text);
std::string_view python_rstrip(std::string_view text);
std::string python_capitalize(std::string_view text);  // first letter in upper case, the others in lower case
int64_t python_length(std::string_view text);          // characters
int64_t python_word_count(std::string_view text);      // parts that re.split(r"\s+", text) returns
std::string python_replace(std::string_view text, std::string_view from, std::string_view to);

// re.sub(open + ".*?" + close, "", text): the shortest parts from `open` to `close` on one line.
std::string remove_between(std::string_view text, char open, char close);
// re.sub(open + "\s*([^close]*?)\s*" + close, open + "\1" + close, text): without white space inside of a pair.
std::string strip_between(std::string_view text, char open, char close);

}  // namespace trireme
