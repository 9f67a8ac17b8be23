#include "telemetry/step_prediction.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.h"

namespace trireme {
namespace {

// The name of a predicted part among the measured ones.
std::string measured_name(const std::string& part) { return part == "pp" || part == "bubble" ? "pipeline" : part; }

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

std::vector<StepPrediction::Row> StepPrediction::rows() const {
  std::vector<Row> rows;
  for (const auto& [name, seconds] : measured_parts) {
    Row row{.name = name, .measured = seconds};
    for (const auto& [part, predicted] : parts)
      if (measured_name(part) == name) row.predicted += predicted;
    if (row.predicted > 0 || row.measured > 0) rows.push_back(row);
  }
  return rows;
}

std::string StepPrediction::rows_text() const {
  std::string text;
  for (const Row& row : rows())
    text += fmt::format("{}{} {} measured {}", text.empty() ? "" : ", ", row.name, format_seconds(row.predicted),
                        format_seconds(row.measured));
  return text;
}

nlohmann::ordered_json StepPrediction::json(double measured) const {
  nlohmann::ordered_json by_part = nlohmann::ordered_json::object();
  for (const auto& [name, part] : parts) by_part[name] = part;
  const auto known = [&](double value) { return measured > 0 ? nlohmann::ordered_json(value) : nullptr; };
  nlohmann::ordered_json by_row = nlohmann::ordered_json::array();
  for (const Row& row : rows())
    by_row.push_back({{"part", row.name}, {"predicted_s", row.predicted}, {"measured_s", row.measured}});
  return {{"on", on},
          {"step_s", seconds},
          {"parts_s", by_part},
          {"measured_s", known(measured)},
          {"error_pct", known(error_percent(seconds, measured))},
          {"rows", by_row}};
}

}  // namespace trireme
