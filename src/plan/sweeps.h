// Measured runs that differ in their layout only: does the planner choose the layout that was fastest?
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/evaluate.h"

namespace trireme {

struct Sweep {
  std::string source, model;
  int64_t gpus = 0, global_batch = 0, runs = 0;
  double rank_correlation = 0;  // Spearman's, between predicted and measured step times
  double loss_pct = 0;          // by which the run that is predicted fastest is slower than the one that was fastest
  std::string chosen, fastest;  // their layouts
};

// Of scored rows with the same software, source, model, GPUs, global batch and number format, where there are enough.
std::vector<Sweep> sweeps_of(const Evaluation& evaluation);

nlohmann::ordered_json json_of(const std::vector<Sweep>& sweeps);
std::string text_of(const std::vector<Sweep>& sweeps);  // empty without sweeps

}  // namespace trireme
