// The page of `trireme report`: one HTML file that needs nothing beside it, not even a network. Charts first, then the summary,
// the settings, and where everything came from.
#pragma once

#include <string>
#include <vector>

#include "report/metrics.h"
#include "report/quantities.h"
#include "report/run_log.h"

namespace trireme {

struct ReportedRun {
  RunLog log;
  RunMetrics metrics;  // over its steady steps
};

// One curve of a chart.
struct Curve {
  size_t run = 0;  // an index
  Quantity quantity = Quantity::loss;
  Series series;
};

// Loss and validation loss share one; the rest have one each.
struct Chart {
  Quantity quantity = Quantity::loss;
  std::vector<Curve> curves;
};

struct Report {
  std::string title;
  std::vector<ReportedRun> runs;
  std::vector<Chart> charts;           // those that some run has values for
  std::vector<std::string> not_there;  // titles of those that none has
};

// Titled by its runs unless `title` says otherwise.
Report make_report(std::vector<RunLog> logs, const FactOptions& said, const std::string& title);

std::string html_page(const Report& report);

// Is this the beginning of a page that html_page made?
bool looks_like_report(std::string_view text);

}  // namespace trireme
