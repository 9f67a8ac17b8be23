#include "plan/nelder_mead.h"

#include <algorithm>

namespace trireme {
namespace {

struct Vertex {
  std::vector<double> at;
  double value = 0;
};

}  // namespace

std::vector<double> minimise(const std::vector<Variable>& start,
                             const std::function<double(const std::vector<double>&)>& function, int evaluations) {
  const size_t dimensions = start.size();
  int used = 0;
  const auto evaluate_at = [&](std::vector<double> at) {
    for (size_t i = 0; i < dimensions; ++i) at[i] = std::clamp(at[i], start[i].low, start[i].high);
    used += 1;
    const double value = function(at);
    return Vertex{std::move(at), value};
  };
  std::vector<double> origin;
  for (const Variable& variable : start) origin.push_back(variable.value);
  std::vector<Vertex> simplex{evaluate_at(origin)};
  for (size_t i = 0; i < dimensions; ++i) {
    std::vector<double> corner = origin;
    const double step = 0.15 * std::max(origin[i], 0.1 * (start[i].high - start[i].low));
    corner[i] += corner[i] + step <= start[i].high ? step : -step;
    simplex.push_back(evaluate_at(corner));
  }
  const auto by_value = [](const Vertex& a, const Vertex& b) { return a.value < b.value; };
  while (used < evaluations) {
    std::ranges::sort(simplex, by_value);
    std::vector<double> centre(dimensions, 0);
    for (size_t v = 0; v < dimensions; ++v)
      for (size_t i = 0; i < dimensions; ++i) centre[i] += simplex[v].at[i] / static_cast<double>(dimensions);
    Vertex& worst = simplex.back();
    const auto along = [&](double factor) {
      std::vector<double> at = centre;
      for (size_t i = 0; i < dimensions; ++i) at[i] += factor * (worst.at[i] - centre[i]);
      return evaluate_at(at);
    };
    Vertex reflected = along(-1);
    if (reflected.value < simplex.front().value) {
      Vertex expanded = along(-2);
      worst = expanded.value < reflected.value ? std::move(expanded) : std::move(reflected);
    } else if (reflected.value < simplex[dimensions - 1].value) {
      worst = std::move(reflected);
    } else if (Vertex contracted = along(0.5); contracted.value < worst.value) {
      worst = std::move(contracted);
    } else {
      for (size_t v = 1; v < simplex.size(); ++v) {
        std::vector<double> at = simplex[v].at;
        for (size_t i = 0; i < dimensions; ++i) at[i] = (at[i] + simplex[0].at[i]) / 2;
        simplex[v] = evaluate_at(at);
      }
    }
  }
  return std::ranges::min_element(simplex, by_value)->at;
}

}  // namespace trireme
