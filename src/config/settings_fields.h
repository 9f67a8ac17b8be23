// The rows of every setting of a run, under its full key, in the order in which they are printed.
#pragma once

#include <string_view>
#include <vector>

#include "config/fields.h"
#include "config/settings.h"

namespace trireme {

using Field = Row<Settings>;

const std::vector<Field>& settings_fields();
const Field* find_setting(std::string_view key);  // nullptr if there is none of that key

}  // namespace trireme
