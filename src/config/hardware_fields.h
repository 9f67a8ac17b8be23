// The rows of the settings that are about hardware and not about the model: FP8, overlap of communication, profiling.
#pragma once

#include <vector>

#include "config/fields.h"
#include "config/settings.h"

namespace trireme {

std::vector<Row<ModelSettings>> hardware_rows();
std::vector<Row<OptimSettings>> gradient_sync_rows();

}  // namespace trireme
