// What follows from settings before anything runs: parameters, FLOPs, ranks and micro-batches.
#pragma once

#include "config/settings.h"
#include "telemetry/flops.h"
#include "train/schedule.h"

namespace trireme {

ModelDimensions flops_dimensions(const ModelSettings& model);

struct RunSize {
  int64_t parameters = 0;     // of the whole model, with the padding of the vocabulary
  int64_t micro_batches = 0;  // of one rank in a step, when the batch has its full size
  double flops_full = 0;      // of a sample, forward and backward
  double flops_causal = 0;
};

RunSize run_size(const Settings& settings);

// The pipeline of a step with so many micro-batches.
Pipeline pipeline_of(const ModelSettings& model, int64_t stages, int64_t micro_batches);

// What overlaps computation, for the start of a run: "gradient sums with backward, ..."; "none" if nothing does.
std::string overlaps_text(const Settings& settings);

// "TP 4, PP 8, VP 6, DP 32": the sizes that are not 1; "1 rank" if all are.
std::string layout_text(const Settings& settings);

}  // namespace trireme
