// What to change in a run that does not fit into the memory of its GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/target_plan.h"

namespace trireme {

struct FitAdvice {
  std::vector<std::string> overrides;  // key=value
  TargetPlan plan;                     // with them
};

// The cheapest combination with which the run fits, or nothing. Its parts are what a rank can do without more ranks: sharding
// the optimizer's state or everything among data parallel ranks, smaller micro-batches, recompute, moments in bf16, and states
// in host memory. Each has a fixed cost, about the percent by which it slows a step down. The settings must be valid.
std::optional<FitAdvice> advise_to_fit(const Settings& settings, const GpuKind& gpu);

// One line: "to fit  add model.micro_batch_size=1 ... (2.1 GiB left)", or that nothing helps.
std::string text_of(const std::optional<FitAdvice>& advice);
nlohmann::ordered_json json_of(const std::optional<FitAdvice>& advice);

}  // namespace trireme
