// What `trireme train --plan` left in summary.json: a step and its parts as predicted and as measured.
#pragma once

#include <string>

#include "report/page.h"

namespace trireme {

// A picture and a table for each run that has a prediction; empty if none has.
std::string prediction_tables(const Report& report);

}  // namespace trireme
