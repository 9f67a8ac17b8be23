// Where the time of traced steps went, in the parts that a prediction has.
#pragma once

#include "backend/op_trace.h"
#include "telemetry/step_prediction.h"

namespace trireme {

// Seconds per step of this rank; compute comes first. Empty if no step was traced. Communication counts where no op ran at the
// same time, waiting for the other rank included; `other` is what is left of the step: the host, and waiting for data.
PartSeconds part_seconds(const OpTrace& trace);

}  // namespace trireme
