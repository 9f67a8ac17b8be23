// What follows from several keys of a recipe together.
#pragma once

#include "config/settings.h"
#include "config/tree.h"

namespace trireme {

// Fills in the settings that the recipe leaves to others, and turns the notations that NeMo and LitGPT have for one thing into
// one. Keys that contradict each other are UserErrors.
void complete(const Tree& recipe, Settings& settings);

}  // namespace trireme
