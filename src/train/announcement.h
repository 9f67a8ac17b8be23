// What a run tells about itself before it starts.
#pragma once

#include "train/run_logs.h"
#include "train/run_setup.h"

namespace trireme {

// Model, data, layout, memory, rates, folder. All ranks together: rank 0 shows a line for each of them.
void announce(const RunSetup& setup, RunLogs& logs);

}  // namespace trireme
