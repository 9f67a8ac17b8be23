// Minimises a function of a few variables within bounds, without derivatives.
#pragma once

#include <functional>
#include <vector>

namespace trireme {

struct Variable {
  double value = 0, low = 0, high = 0;
};

// Returns the best values found with about so many evaluations. Deterministic.
std::vector<double> minimise(const std::vector<Variable>& start,
                             const std::function<double(const std::vector<double>&)>& function, int evaluations);

}  // namespace trireme
