// Trees as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "config/tree.h"

namespace trireme {

nlohmann::ordered_json to_json(const Tree& tree);

// Scalars keep their type; lists and maps become their text.
nlohmann::json scalar_json(const Tree& value);

}  // namespace trireme
