// Whether a model can be cut over the ranks as its recipe says.
#pragma once

#include "config/settings.h"

namespace trireme {

// Throws a UserError for the first size that does not divide what it cuts.
void validate_layout(const Settings& settings);

}  // namespace trireme
