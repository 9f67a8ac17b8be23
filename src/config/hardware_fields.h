// The rows of the settings about hardware rather than the model: FP8, overlap of communication, profiling.
#pragma once

#include <vector>

#include "config/fields.h"
#include "config/settings.h"

namespace trireme {

std::vector<Row<ModelSettings>> hardware_rows();
std::vector<Row<OptimSettings>> gradient_sync_rows();
std::vector<Row<OptimSettings>> optimizer_state_rows();

}  // namespace trireme
