// What valid settings require of the machine. Recipes for a thousand GPUs can be printed, planned and launched anywhere; they can
// only run where this passes.
#pragma once

#include <string>
#include <vector>

#include "config/idle_keys.h"
#include "config/settings.h"

namespace trireme {

// Throws a UserError for the first setting that needs more than `ranks_here` ranks on the CPU: more ranks, the cuda backend, or
// something this program does not do at all.
void require_runnable(const Settings& settings, int64_t ranks_here);

// The settings that were requested but have no effect: overlaps without a second rank, FP8 settings without FP8.
std::vector<IdleKey> idle_settings(const Settings& settings);

}  // namespace trireme
