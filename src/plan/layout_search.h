// The fastest layouts of a run on a cluster.
#pragma once

#include <vector>

#include "plan/run_plan.h"

namespace trireme {

struct FoundLayout {
  Settings settings;
  StepTime step;
  TargetPlan memory;
};

struct LayoutSearch {
  int64_t tried = 0;              // valid layouts that were timed
  int64_t too_large = 0;          // fast ones that did not fit
  std::vector<FoundLayout> best;  // that fit, the fastest first
};

// Over TP with sequence parallelism, PP, VP, CP, the micro-batch and recompute; everything else, also the number of ranks and the
// global batch, is the request's. Layouts are timed first; memory is planned from the fastest on, until `count` fit.
LayoutSearch search_layouts(const PlanRequest& request, size_t count);

// The settings of a layout as overrides: "model.tensor_model_parallel_size=4", ...
std::vector<std::string> overrides_of(const Settings& settings);

std::string text_of(const LayoutSearch& search, const PlanRequest& request);
nlohmann::ordered_json json_of(const LayoutSearch& search);

}  // namespace trireme
