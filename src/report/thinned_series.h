// A series as a picture can show it: no more points than that has columns.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "report/run_log.h"

namespace trireme {

struct ThinnedSeries {
  int64_t group = 1;               // points behind each of these
  std::vector<int64_t> steps;      // the first of each group
  std::vector<double> values;      // the mean of each group; NaN where nothing in it is finite
  std::vector<double> low, high;   // the least and the most of each group; empty while groups are of one
  std::vector<int64_t> nonfinite;  // the first steps whose value is NaN or infinite
};

// At most `limit` groups of consecutive points, all of one size but the last.
ThinnedSeries thin(const std::vector<Point>& points, size_t limit);

nlohmann::ordered_json to_json(const ThinnedSeries& series);  // seven digits, and null for what is not finite

}  // namespace trireme
