// The GPT-3 models that a budget of GPUs, days and tokens can train.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/layout_search.h"

namespace trireme {

// A recipe with overrides of its shape. Its layout is that of another number of layers.
struct ModelSize {
  std::string name;
  std::string recipe;
  std::vector<std::string> overrides;
};

// The settings without a layout, which a search then gives them.
Settings on_one_rank(Settings settings);

// From 126m to 1t, in rising order: the shipped sizes, and those between them as the NeMo auto-configurator shapes them.
std::span<const ModelSize> gpt3_sizes();

// One size, beside the budget.
struct SizedPlan {
  const ModelSize* size = nullptr;
  double parameters = 0;
  double least_days = 0;        // at the peak of every GPU
  std::optional<RunPlan> best;  // the fastest layout; none if it was not searched or does not fit in memory
};

// The sizes in rising order. Those are searched that could be trained in `days`, the largest first, until one is; the one above
// it and those below it stay unsearched. `request_for` makes the request of a size, with settings on_one_rank().
struct BudgetPlan {
  std::vector<SizedPlan> sizes;
  const SizedPlan* winner = nullptr;  // of `sizes`; null if none can be trained
};
BudgetPlan plan_budget(double days, const SearchOptions& options,
                       const std::function<PlanRequest(const ModelSize&)>& request_for);

// What the NeMo auto-configurator takes for the same budget, in parameters: 8 FLOPs per parameter and token at 140 TFLOP/s a GPU.
double reference_size(double days, double gpus, double tokens);

}  // namespace trireme
