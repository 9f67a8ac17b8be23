// JSON read from files that nobody vouches for: nesting is bounded, a key given twice is an error, and numbers are what they
// should be before anyone uses them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace trireme {

// Failure, beginning with `where`, if the text is not JSON as above.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where);

// The member `key` of an object, converted; Failure, beginning with `where`, if it is missing or of another kind.
const nlohmann::json& json_member(const nlohmann::json& object, const char* key, const std::string& where);
int64_t json_size(const nlohmann::json& value, const std::string& where);  // an integer from 0 to 2^63 - 1
std::string json_string(const nlohmann::json& value, const std::string& where);

// Dimensions: at most Shape::kMaxRank sizes whose product fits in memory that can be addressed.
Shape json_shape(const nlohmann::json& value, const std::string& where);

// How a value looks in a message: as JSON, cut when it is long.
std::string json_excerpt(const nlohmann::json& value);

}  // namespace trireme
