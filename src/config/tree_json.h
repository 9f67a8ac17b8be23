// Trees as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "config/tree.h"

namespace trireme {

nlohmann::ordered_json to_json(const Tree& tree);

}  // namespace trireme
