// The page of `trireme report`: one self-contained HTML file that needs no network. It has charts, the summary, the settings, and
// the sources.
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
  size_t run = 0;  // index of the run
  Quantity quantity = Quantity::loss;
  Series series;
};

// Loss and validation loss share a chart; every other quantity has its own.
struct Chart {
  Quantity quantity = Quantity::loss;
  std::vector<Curve> curves;
};

struct Report {
  std::string title;
  std::vector<ReportedRun> runs;
  std::vector<Chart> charts;           // those with values in some run
  std::vector<std::string> not_there;  // titles of charts without values
};

// Uses the names of the runs as the title unless `title` is given.
Report make_report(std::vector<RunLog> logs, const FactOptions& said, const std::string& title);

std::string html_page(const Report& report);

// Returns whether the text starts like a page of html_page.
bool looks_like_report(std::string_view text);

}  // namespace trireme
