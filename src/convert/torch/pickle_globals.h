// The classes and functions that a checkpoint may name.
#pragma once

#include <string_view>

namespace trireme {

// Names are "module.name".
bool is_accepted_global(std::string_view name);

}  // namespace trireme
