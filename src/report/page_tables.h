// The text parts of a report page: key figures, summary, settings, sources. As HTML, with everything from a log escaped.
#pragma once

#include <string>

#include "report/page.h"

namespace trireme {

std::string key_figures(const Report& report);      // for a single run
std::string summary_table(const Report& report);    // one row per run
std::string time_bars(const Report& report);        // where the time of each run went; empty if no log says it
std::string settings_tables(const Report& report);  // those that differ, then all
std::string sources(const Report& report);          // files, formulas, missing inputs, anomalies

}  // namespace trireme
