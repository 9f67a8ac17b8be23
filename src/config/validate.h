// Whether settings are consistent. Each row of the field table has already checked its own value; these are the rules between
// settings.
#pragma once

#include "config/settings.h"

namespace trireme {

// Throws a UserError for the first broken rule: the keys, their values, and what is valid.
void validate(const Settings& settings);

// The two halves of validate(): the rules for any number of ranks, and whether the recipe fits the number it gives.
void validate_recipe(const Settings& settings);
void validate_ranks(const Settings& settings);

}  // namespace trireme
