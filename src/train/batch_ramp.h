// Batch-size ramp-up: [start, increment, samples] grows the global batch from start to its full size in equal increments, each
// held for an equal share of `samples` consumed samples.
#pragma once

#include "config/settings.h"

namespace trireme {

int64_t global_batch_at(const ModelSettings& model, int64_t consumed_samples);

}  // namespace trireme
