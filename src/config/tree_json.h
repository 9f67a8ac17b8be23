// Trees as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "config/tree.h"

namespace trireme {

nlohmann::ordered_json to_json(const Tree& tree);

// A value that is neither a list nor a map; those become their text.
nlohmann::json scalar_json(const Tree& value);

}  // namespace trireme
