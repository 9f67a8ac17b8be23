// The page of `trireme plan --html`: one self-contained HTML file with the timeline of all pipeline stages, where the time of a
// step goes, and the memory by kind and over the step.
#pragma once

#include <string>

#include "plan/run_plan.h"

namespace trireme {

// `name` is the recipe's.
std::string plan_page(const RunPlan& plan, const std::string& name);

}  // namespace trireme
