// trireme config RECIPE --schedule: the timeline of a step on the ranks of a pipeline.
#pragma once

#include "config/settings.h"

namespace trireme {

enum class ScheduleFormat : uint8_t { drawing, json };
void print_schedule(const Settings& settings, ScheduleFormat format);

}  // namespace trireme
