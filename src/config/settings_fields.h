// The rows of every setting of a run, under its full key, in the order in which they are printed.
#pragma once

#include <vector>

#include "config/fields.h"
#include "config/settings.h"

namespace trireme {

using Field = Row<Settings>;

const std::vector<Field>& settings_fields();

}  // namespace trireme
