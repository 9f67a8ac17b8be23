#include "report/page.h"

#include <fmt/format.h>
#include <report_page.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "report/page_frame.h"
#include "report/page_tables.h"
#include "report/prediction_table.h"
#include "report/thinned_series.h"

namespace trireme {
namespace {

// More than a screen has columns, so that a user can zoom in.
constexpr size_t kMostPoints = 3000;

constexpr std::string_view kGenerator = "trireme report";

// Returns the data that the script draws. If the batch size changes, tokens are not a multiple of steps, and there is no token
// axis.
nlohmann::ordered_json run_json(const ReportedRun& run) {
  const std::optional<double> tokens = run.metrics.facts.tokens_per_step();
  const Series* const batches = run.log.find("global_batch_size");
  const bool batch_grows = batches != nullptr && batches->points.front().value != batches->points.back().value;
  return {{"name", run.log.name}, {"tokens_per_step", tokens && !batch_grows ? nlohmann::ordered_json(*tokens) : nullptr}};
}

nlohmann::ordered_json chart_json(const Chart& chart) {
  const QuantityRow& row = row_of(chart.quantity);
  nlohmann::ordered_json data{{"key", row.key}, {"title", row.title}, {"unit", row.unit}};
  for (const Curve& curve : chart.curves) {
    nlohmann::ordered_json series = to_json(thin(curve.series.points, kMostPoints));
    series["run"] = curve.run;
    series["name"] = curve.series.name;
    series["dots"] = curve.quantity == Quantity::validation_loss;
    data["series"].push_back(std::move(series));
  }
  return data;
}

nlohmann::ordered_json data_of(const Report& report) {
  nlohmann::ordered_json data;
  for (const ReportedRun& run : report.runs) data["runs"].push_back(run_json(run));
  data["charts"] = nlohmann::ordered_json::array();
  for (const Chart& chart : report.charts) data["charts"].push_back(chart_json(chart));
  return data;
}

std::string about(const Report& report) {
  if (report.runs.size() > 1) return fmt::format("{} runs compared", report.runs.size());
  const RunMetrics& run = report.runs.front().metrics;
  std::string text = fmt::format("steps {} to {}", run.first_step, run.last_step);
  if (const std::string layout = layout_text(run.facts); !layout.empty()) text += "; " + layout;
  return html_escaped(text);
}

}  // namespace

bool looks_like_report(std::string_view text) { return text.starts_with(page_opening(kGenerator)); }

std::string html_page(const Report& report) {
  std::string html = page_begin(kGenerator, report.title, about(report));
  const bool is_single = report.runs.size() == 1;
  if (is_single) html += key_figures(report);
  html +=
      "<div class=controls><div class=legend id=legend role=group aria-label=\"runs\"></div>"
      "<div class=settings id=settings></div></div>\n"
      "<noscript><p>The charts are drawn by a script in this page, which is not allowed to run here.</p></noscript>\n"
      "<div class=charts id=charts></div>\n";
  if (!is_single) html += "<h2>Summary</h2>\n" + summary_table(report);
  html += time_bars(report);
  html += prediction_tables(report);
  html += settings_tables(report);
  html += sources(report);
  return html + page_end("Drag over a chart to look closer, double-click to go back.", data_of(report), kReportScript);
}

}  // namespace trireme
