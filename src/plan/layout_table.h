// Layouts for people and for files: a table with one row per plan, and the overrides of a recipe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/run_plan.h"

namespace trireme {

// The head of the table, and a row, both without a line break. With tokens to train on, the last column has the days.
std::string layout_head(const PlanRequest& request);
std::string layout_row(const RunPlan& plan);

nlohmann::ordered_json layout_json(const RunPlan& plan);

// What a search may have changed in the settings of `from`, as overrides: "model.tensor_model_parallel_size=4", ...
std::vector<std::string> overrides_of(const Settings& settings, const Settings& from);

}  // namespace trireme
