// The rows of every setting of a run, under its full key, in printing order.
#pragma once

#include <string_view>
#include <vector>

#include "config/fields.h"
#include "config/settings.h"

namespace trireme {

using Field = Row<Settings>;

const std::vector<Field>& settings_fields();
const Field* find_setting(std::string_view key);  // nullptr if no setting has that key

}  // namespace trireme
