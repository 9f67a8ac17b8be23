#include "telemetry/step_prediction.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.h"

namespace trireme {
namespace {

double error_percent(double predicted, double measured) { return 100 * (predicted / measured - 1); }

}  // namespace

std::string StepPrediction::text() const {
  return fmt::format("a step takes {} on {}: {}", format_seconds(seconds), on, parts_text);
}

std::string StepPrediction::text(double measured) const {
  if (measured == 0) return fmt::format("predicted {} per step; no step was measured", format_seconds(seconds));
  return fmt::format("predicted {} per step, measured {}: {:+.1f}%", format_seconds(seconds), format_seconds(measured),
                     error_percent(seconds, measured));
}

nlohmann::ordered_json StepPrediction::json(double measured) const {
  nlohmann::ordered_json by_part = nlohmann::ordered_json::object();
  for (const auto& [name, part] : parts) by_part[name] = part;
  const auto known = [&](double value) { return measured > 0 ? nlohmann::ordered_json(value) : nullptr; };
  return {{"on", on},
          {"step_s", seconds},
          {"parts_s", by_part},
          {"measured_s", known(measured)},
          {"error_pct", known(error_percent(seconds, measured))}};
}

}  // namespace trireme
