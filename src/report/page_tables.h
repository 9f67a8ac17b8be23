// The parts of a report page that are text: key figures, the summary, settings, sources. As HTML, with everything that comes from
// a log escaped.
#pragma once

#include <string>
#include <string_view>

#include "report/page.h"

namespace trireme {

std::string html_escaped(std::string_view text);

std::string key_figures(const Report& report);      // of a single run
std::string summary_table(const Report& report);    // a row a run
std::string settings_tables(const Report& report);  // those that differ, then all
std::string sources(const Report& report);          // files, formulas, what is missing, what is odd

}  // namespace trireme
