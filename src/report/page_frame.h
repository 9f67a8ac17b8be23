// What every HTML page of the program has around its content: its style, a heading, the data and the script that draws it. The
// page needs no network and may not use any.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trireme {

std::string html_escaped(std::string_view text);

// The first bytes of the pages of a command, such as "trireme report".
std::string page_opening(std::string_view generator);

// Through the heading. `about`, a line under it, is HTML.
std::string page_begin(std::string_view generator, std::string_view title, std::string_view about);

// `hint` is a sentence of the footer. The script finds the data as the JSON text of the element "data".
std::string page_end(std::string_view hint, const nlohmann::ordered_json& data, std::string_view script);

}  // namespace trireme
