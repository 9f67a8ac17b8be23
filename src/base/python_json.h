// JSON in the format of Python's json module: ", " and ": " as separators, non-ASCII characters escaped, 1.0 instead of 1, NaN
// and Infinity. For files that are compared as text, hashed, or read by tools made for Python's output.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/json.h"

namespace trireme {

void append_python_number(std::string& out, double value);

// Appends one line, or with `indent` spaces per level, equal to json.dumps(value, indent=indent).
void append_python_json(std::string& out, const nlohmann::json& value, int indent = kOneLine);
void append_python_json(std::string& out, const nlohmann::ordered_json& value, int indent = kOneLine);
std::string python_json(const nlohmann::ordered_json& value, int indent = kOneLine);

}  // namespace trireme
