// JSON as Python's json module writes it: ", " and ": " between things, all but ASCII escaped, 1.0 and not 1, NaN and Infinity.
// Log files are compared and searched as text, and read by Python.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trireme {

void append_json_number(std::string& out, double value);
void append_json(std::string& out, const nlohmann::json& value);
void append_json(std::string& out, const nlohmann::ordered_json& value);

}  // namespace trireme
