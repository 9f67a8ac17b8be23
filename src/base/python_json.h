// JSON as Python's json module writes it: ", " and ": " between things, all but ASCII escaped, 1.0 and not 1, NaN and Infinity.
// For files that are compared as text, hashed, or searched by tools made for Python's output.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/json.h"

namespace trireme {

void append_python_number(std::string& out, double value);

// In one line, or with `indent` spaces per level, as json.dumps(value, indent=indent) has it.
void append_python_json(std::string& out, const nlohmann::json& value, int indent = kOneLine);
void append_python_json(std::string& out, const nlohmann::ordered_json& value, int indent = kOneLine);
std::string python_json(const nlohmann::ordered_json& value, int indent = kOneLine);

}  // namespace trireme
