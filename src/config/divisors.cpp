#include "config/divisors.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "config/fields.h"

namespace trireme {

std::string divisors_near(int64_t n, int64_t wanted) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    divisors.push_back(d);
    if (d * d != n) divisors.push_back(n / d);
  }
  constexpr size_t kMost = 8;
  std::ranges::sort(divisors, {}, [&](int64_t d) { return std::abs(d - wanted); });
  divisors.resize(std::min(divisors.size(), kMost));
  std::ranges::sort(divisors);
  std::vector<std::string> names;
  names.reserve(divisors.size());
  for (const int64_t d : divisors) names.push_back(std::to_string(d));
  return join_names(names);
}

std::string multiples_near(int64_t unit, int64_t wanted) {
  const int64_t below = wanted / unit * unit;
  if (below == 0) return std::to_string(unit);
  return join_names({std::to_string(below), std::to_string(below + unit)});
}

}  // namespace trireme
