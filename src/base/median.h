// Returns the middle value; for an even number of values, the mean of the two middle ones.
#pragma once

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace trireme {

template <class Values>
double median(const Values& values) {
  CHECK(!values.empty());
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace trireme
