// The fastest layouts of a run on a cluster.
#pragma once

#include <vector>

#include "plan/run_plan.h"

namespace trireme {

struct SearchOptions {
  size_t count = 5;            // layouts to find
  bool varies_fp8 = false;     // tries bf16 and, where the GPU has it, FP8; else the request's
  bool varies_shards = false;  // tries the optimizer's state sharded over the data parallel ranks and not; else the request's
};

struct LayoutSearch {
  int64_t tried = 0;          // valid layouts that were timed
  int64_t too_large = 0;      // fast ones that did not fit
  std::vector<RunPlan> best;  // that fit, the fastest first
};

// Over TP with sequence parallelism, PP, VP, the pipeline schedule, CP, the micro-batch and recompute; everything else, also the
// number of ranks and the global batch, is the request's. Layouts are timed first; memory is planned from the fastest on, until
// enough of them fit.
LayoutSearch search_layouts(const PlanRequest& request, const SearchOptions& options);

// A shorter step whose memory is that of the whole one: what a micro-batch needs stops growing once the pipeline is full. Not for
// GPipe, which keeps all micro-batches.
Settings with_short_step(const Settings& settings);

// The days to the request's tokens if every GPU ran at its peak: no layout is faster.
double least_days(const PlanRequest& request, const SearchOptions& options);

}  // namespace trireme
