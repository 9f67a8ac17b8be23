// How the speed of a run grows with the number of GPUs, with the fastest layout at each number.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/run_plan.h"

namespace trireme {

struct ScalingPoint {
  int64_t gpus = 0;
  std::optional<RunPlan> plan;  // none: no layout fits
};

struct ScalingCurve {
  std::string name;     // "strong scaling"
  std::string summary;  // what stays the same
  std::vector<ScalingPoint> points;

  // Tokens/s per GPU over those of the first point that has a plan; 0 without a plan.
  double efficiency(const ScalingPoint& point) const;
};

// Strong scaling keeps the global batch; weak scaling keeps the samples per GPU.
struct ScalingCurves {
  std::string cluster;
  ScalingCurve strong, weak;
};

// The settings on so many GPUs: whole nodes, or a part of one. A UserError if they are not whole nodes.
Settings with_gpus(const Settings& settings, const Platform& platform, int64_t gpus);

// The samples per GPU of weak scaling are the recipe's on its own GPUs, to the nearest power of two: others have few divisors.
ScalingCurves scaling_curves(const PlanRequest& request, std::span<const int64_t> gpus);

std::string text_of(const ScalingCurves& curves, const std::string& recipe);
nlohmann::ordered_json json_of(const ScalingCurves& curves, const std::string& recipe);

}  // namespace trireme
