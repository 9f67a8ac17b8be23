#include <fmt/ranges.h>

#include "report/page.h"

namespace trireme {
namespace {

// In page order. TFLOP/s is shown only if MFU is unknown, because the curves are the same.
constexpr std::array kCharts{Quantity::loss,   Quantity::step_seconds, Quantity::tokens_per_second, Quantity::mfu,
                             Quantity::tflops, Quantity::memory,       Quantity::learning_rate,     Quantity::grad_norm};

void add_curves(const std::vector<ReportedRun>& runs, Quantity quantity, Chart& chart) {
  for (size_t run = 0; run < runs.size(); ++run)
    if (std::optional<Series> series = find_quantity(runs[run].log, runs[run].metrics.facts, quantity))
      chart.curves.push_back({.run = run, .quantity = quantity, .series = std::move(*series)});
}

Chart make_chart(const std::vector<ReportedRun>& runs, Quantity quantity) {
  Chart chart{.quantity = quantity, .curves = {}};
  add_curves(runs, quantity, chart);
  if (quantity == Quantity::loss) add_curves(runs, Quantity::validation_loss, chart);
  return chart;
}

std::string title_of(const std::vector<ReportedRun>& runs) {
  constexpr size_t kNamed = 4;
  std::vector<std::string_view> names;
  for (size_t i = 0; i < std::min(kNamed, runs.size()); ++i) names.push_back(runs[i].log.name);
  std::string title = fmt::format("{}", fmt::join(names, ", "));
  if (runs.size() > kNamed) title += fmt::format(" and {} more", runs.size() - kNamed);
  return title;
}

}  // namespace

Report make_report(std::vector<RunLog> logs, const FactOptions& said, const std::string& title) {
  Report report;
  for (RunLog& log : logs) {
    RunMetrics metrics = measure_steady(log, said);
    report.runs.push_back({.log = std::move(log), .metrics = std::move(metrics)});
  }
  report.title = title.empty() ? title_of(report.runs) : title;
  bool has_mfu = false;
  for (const Quantity quantity : kCharts) {
    if (quantity == Quantity::tflops && has_mfu) continue;
    Chart chart = make_chart(report.runs, quantity);
    if (chart.curves.empty()) {
      report.not_there.emplace_back(row_of(quantity).title);
      continue;
    }
    has_mfu = has_mfu || quantity == Quantity::mfu;
    report.charts.push_back(std::move(chart));
  }
  return report;
}

}  // namespace trireme
