#include "validate/fleet.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace trireme {

FleetLimit limit_of(const std::vector<double>& rates, const Tolerance& tolerance) {
  CHECK(!rates.empty());
  std::vector<double> sorted = rates;
  std::ranges::sort(sorted);
  FleetLimit limit{.median = sorted[sorted.size() / 2]};
  std::vector<double> distances;
  for (const double rate : rates) distances.push_back(std::abs(rate - limit.median));
  std::ranges::sort(distances);
  const double sigma = 1.4826 * distances[(distances.size() - 1) / 2];
  limit.lowest = limit.median - tolerance.deviations * std::max(sigma, tolerance.floor * limit.median);
  limit.lowest = std::max(limit.lowest, tolerance.always * limit.median);
  return limit;
}

std::vector<size_t> slow_parts(const std::vector<double>& rates, const Tolerance& tolerance) {
  const FleetLimit limit = limit_of(rates, tolerance);
  std::vector<size_t> slow;
  for (size_t i = 0; i < rates.size(); ++i)
    if (rates[i] < limit.lowest) slow.push_back(i);
  return slow;
}

}  // namespace trireme
