// JSON to text and back, in one place: the writer and the parser are large templates, which every file that calls them would
// compile again.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trireme {

// Indented by so many spaces, or in one line. What is not UTF-8 in it, such as the name of a file, becomes U+FFFD.
inline constexpr int kOneLine = -1;
std::string json_text(const nlohmann::json& value, int indent = 2);
std::string json_text(const nlohmann::ordered_json& value, int indent = 2);

// For --json: the value on stdout, with a line break behind it.
void print_json(const nlohmann::json& value, int indent = 2);
void print_json(const nlohmann::ordered_json& value, int indent = 2);

// What is not JSON is thrown as nlohmann::json::parse_error, or with the second comes back as a value that is_discarded().
nlohmann::json parse_json(std::string_view text);
nlohmann::json try_parse_json(std::string_view text);

}  // namespace trireme
