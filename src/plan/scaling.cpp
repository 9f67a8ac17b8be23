#include "plan/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "plan/layout_search.h"
#include "plan/layout_table.h"

namespace trireme {
namespace {

double tokens_per_gpu(const RunPlan& plan) {
  return plan.tokens_per_second() / static_cast<double>(plan.request.settings.ranks());
}

ScalingPoint fastest_with(PlanRequest request, int64_t gpus, int64_t global_batch) {
  request.settings = with_gpus(request.settings, request.platform, gpus);
  request.settings.model.global_batch_size = global_batch;
  LayoutSearch search = search_layouts(request, {.count = 1});
  if (search.best.empty()) return {.gpus = gpus};
  return {.gpus = gpus, .plan = std::move(search.best.front())};
}

std::string text_of(const ScalingCurve& curve, const PlanRequest& request) {
  std::string text = fmt::format("\n{}: {}\n{} efficiency\n", curve.name, curve.summary, layout_head(request));
  for (const ScalingPoint& point : curve.points) {
    if (point.plan)
      text += fmt::format("{} {:>9.1f}%\n", layout_row(*point.plan), 100 * curve.efficiency(point));
    else
      text += fmt::format("{:>6}  no layout fits\n", point.gpus);
  }
  return text;
}

nlohmann::ordered_json json_of(const ScalingCurve& curve) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const ScalingPoint& point : curve.points) {
    nlohmann::ordered_json row = {{"gpus", point.gpus}, {"fits", point.plan.has_value()}};
    if (point.plan) {
      row.update(layout_json(*point.plan));
      row["efficiency"] = curve.efficiency(point);
    }
    points.push_back(std::move(row));
  }
  return points;
}

}  // namespace

double ScalingCurve::efficiency(const ScalingPoint& point) const {
  const auto first = std::ranges::find_if(points, [](const ScalingPoint& other) { return other.plan.has_value(); });
  return point.plan ? tokens_per_gpu(*point.plan) / tokens_per_gpu(*first->plan) : 0;
}

Settings with_gpus(const Settings& settings, const Platform& platform, int64_t gpus) {
  const auto per_node = static_cast<int64_t>(platform.gpus_per_node);
  if (gpus > per_node && gpus % per_node != 0)
    throw UserError("{} GPUs are not whole nodes of {}, which have {}; use {} or {}", gpus, platform.name, per_node,
                    gpus / per_node * per_node, (gpus / per_node + 1) * per_node);
  Settings changed = settings;
  changed.trainer.num_nodes = std::max<int64_t>(1, gpus / per_node);
  changed.trainer.devices = std::min(gpus, per_node);
  return changed;
}

ScalingCurves scaling_curves(const PlanRequest& request, std::span<const int64_t> gpus) {
  const int64_t batch = request.settings.model.global_batch_size;
  const double samples = static_cast<double>(batch) / static_cast<double>(request.settings.ranks());
  const double samples_per_gpu = std::exp2(std::round(std::log2(samples)));
  ScalingCurves curves{.cluster = request.platform.name,
                       .strong = {.name = "strong scaling", .summary = fmt::format("a global batch of {}", batch)},
                       .weak = {.name = "weak scaling", .summary = fmt::format("{:g} samples per GPU", samples_per_gpu)}};
  for (const int64_t count : gpus) {
    const auto weak_batch = std::max<int64_t>(1, std::llround(samples_per_gpu * static_cast<double>(count)));
    curves.strong.points.push_back(fastest_with(request, count, batch));
    curves.weak.points.push_back(weak_batch == batch ? curves.strong.points.back() : fastest_with(request, count, weak_batch));
  }
  return curves;
}

std::string text_of(const ScalingCurves& curves, const std::string& recipe) {
  std::string text = fmt::format("{} on {}, the fastest layout that fits at each number of GPUs\n", recipe, curves.cluster);
  for (const ScalingCurve* curve : {&curves.strong, &curves.weak}) {
    const auto known = std::ranges::find_if(curve->points, [](const ScalingPoint& point) { return point.plan.has_value(); });
    text += text_of(*curve, known == curve->points.end() ? PlanRequest{} : known->plan->request);
  }
  return text;
}

nlohmann::ordered_json json_of(const ScalingCurves& curves, const std::string& recipe) {
  return {{"recipe", recipe},
          {"cluster", curves.cluster},
          {"strong", {{"keeps", curves.strong.summary}, {"points", json_of(curves.strong)}}},
          {"weak", {{"keeps", curves.weak.summary}, {"points", json_of(curves.weak)}}}};
}

}  // namespace trireme
