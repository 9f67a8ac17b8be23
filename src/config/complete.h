// Settings that follow from several keys of a recipe together.
#pragma once

#include "config/settings.h"
#include "config/tree.h"

namespace trireme {

// Fills in the settings that follow from others, and unifies the notations of NeMo and LitGPT. Keys that contradict each other
// are UserErrors.
void complete(const Tree& recipe, Settings& settings);

}  // namespace trireme
