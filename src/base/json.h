// JSON to text and back, in one place: the writer and the parser are large templates that every caller would compile again.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trireme {

// Indented by so many spaces, or in one line. Invalid UTF-8, such as in a file name, becomes U+FFFD.
inline constexpr int kOneLine = -1;
std::string json_text(const nlohmann::json& value, int indent = 2);
std::string json_text(const nlohmann::ordered_json& value, int indent = 2);

// Prints the value and a line break on stdout, for --json.
void print_json(const nlohmann::json& value, int indent = 2);
void print_json(const nlohmann::ordered_json& value, int indent = 2);

// On invalid JSON the first throws nlohmann::json::parse_error; the second returns a value with is_discarded().
nlohmann::json parse_json(std::string_view text);
nlohmann::json try_parse_json(std::string_view text);

}  // namespace trireme
