// What a machine must have for settings that are right in themselves. Recipes for a thousand GPUs can be printed, planned and
// launched anywhere; they can only be run where this passes.
#pragma once

#include <string>
#include <vector>

#include "config/idle_keys.h"
#include "config/settings.h"

namespace trireme {

// Throws a UserError for the first setting that needs more than the ranks that are here, on the CPU: other ranks, the cuda
// backend, or what this program does not do at all.
void require_runnable(const Settings& settings, int64_t ranks_here);

// The settings that were asked for and have nothing to act on: overlaps without a second rank, FP8 knobs without FP8.
std::vector<IdleKey> idle_settings(const Settings& settings);

}  // namespace trireme
