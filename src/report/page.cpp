#include "report/page.h"

#include <fmt/format.h>
#include <report_page.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/build_info.h"
#include "base/json.h"
#include "base/units.h"
#include "report/page_tables.h"
#include "report/thinned_series.h"

namespace trireme {
namespace {

// More than a screen has columns, so that a user can zoom in.
constexpr size_t kMostPoints = 3000;

constexpr std::string_view kBegin = "<!doctype html>\n<html lang=en>\n<meta name=generator content=\"trireme report\">\n";

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

// Returns JSON for a script element. "<" occurs only in strings, where its escape is equivalent and cannot end the element.
std::string embedded(const nlohmann::ordered_json& data) {
  const std::string text = json_text(data, kOneLine);
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

std::string data_of(const Report& report) {
  nlohmann::ordered_json data;
  for (const ReportedRun& run : report.runs) data["runs"].push_back(run_json(run));
  data["charts"] = nlohmann::ordered_json::array();
  for (const Chart& chart : report.charts) data["charts"].push_back(chart_json(chart));
  return embedded(data);
}

std::string about(const Report& report) {
  if (report.runs.size() > 1) return fmt::format("{} runs compared", report.runs.size());
  const RunMetrics& run = report.runs.front().metrics;
  std::string text = fmt::format("steps {} to {}", run.first_step, run.last_step);
  if (const std::string layout = layout_text(run.facts); !layout.empty()) text += "; " + layout;
  return html_escaped(text);
}

}  // namespace

bool looks_like_report(std::string_view text) { return text.starts_with(kBegin); }

std::string html_page(const Report& report) {
  std::string html(kBegin);
  html +=
      "<meta charset=utf-8>\n<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
      // Forbids all network access, whatever a log contains.
      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
      "'unsafe-inline'\">\n";
  html += fmt::format("<title>{}</title>\n<style>\n{}</style>\n<body>\n", html_escaped(report.title), kReportStyle);
  html += fmt::format("<header><h1>{}</h1><p class=about>{}</p></header>\n<main>\n", html_escaped(report.title), about(report));
  const bool is_single = report.runs.size() == 1;
  if (is_single) html += key_figures(report);
  html +=
      "<div class=controls><div class=legend id=legend role=group aria-label=\"runs\"></div>"
      "<div class=settings id=settings></div></div>\n"
      "<noscript><p>The charts are drawn by a script in this page, which is not allowed to run here.</p></noscript>\n"
      "<div class=charts id=charts></div>\n";
  if (!is_single) html += "<h2>Summary</h2>\n" + summary_table(report);
  html += settings_tables(report);
  html += sources(report);
  html += fmt::format(
      "</main>\n<footer>Made by trireme {} ({}). Drag over a chart to look closer, double-click to go back.</footer>\n", kVersion,
      kCommit);
  html += fmt::format("<script type=application/json id=data>{}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
                      data_of(report), kReportScript);
  return html;
}

}  // namespace trireme
