// A series reduced for display: at most as many points as a chart has columns.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "report/run_log.h"

namespace trireme {

struct ThinnedSeries {
  int64_t group = 1;               // points per group
  std::vector<int64_t> steps;      // first step of each group
  std::vector<double> values;      // mean of each group; NaN if no value is finite
  std::vector<double> low, high;   // minimum and maximum of each group; empty if groups have one point
  std::vector<int64_t> nonfinite;  // the first steps with NaN or infinite values
};

// Returns at most `limit` groups of consecutive points, all of the same size but the last.
ThinnedSeries thin(const std::vector<Point>& points, size_t limit);

nlohmann::ordered_json to_json(const ThinnedSeries& series);  // seven digits; null for non-finite values

}  // namespace trireme
