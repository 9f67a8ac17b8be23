// Whether settings fit together. Each row of the field table has checked its own value before; here are the rules between them.
#pragma once

#include "config/settings.h"

namespace trireme {

// Throws a UserError for the first rule that is broken: the keys, their values, and what would work.
void validate(const Settings& settings);

// Its two halves: the rules that hold on any number of ranks, and whether the recipe fits the number it gives.
void validate_recipe(const Settings& settings);
void validate_ranks(const Settings& settings);

}  // namespace trireme
