// Whether settings fit together. Each row of the field table has checked its own value before; here are the rules between them.
#pragma once

#include "config/settings.h"

namespace trireme {

// Throws a UserError for the first rule that is broken: the keys, their values, and what would work.
void validate(const Settings& settings);

}  // namespace trireme
