#include "plan/measured_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

namespace trireme {
namespace {

constexpr size_t kCosts = 5;
using Work = std::array<double, kCosts>;

double elements_of(const PlanCall& call) {
  return static_cast<double>(call.rows) * static_cast<double>(call.columns) * static_cast<double>(call.batches);
}

Work work_of(const PlanCall& call) { return {1, call.flops, call.bytes, elements_of(call), call.draws}; }

// Where a shape lies among others: doubling a number is one step away.
std::array<double, 7> position_of(const PlanCall& call) {
  const auto octave = [](auto number) { return std::log2(1 + static_cast<double>(number)); };
  return {octave(call.rows),  octave(call.columns), octave(call.depth), octave(call.batches),
          octave(call.flops), octave(call.bytes),   octave(call.draws)};
}

double squared_distance(const PlanCall& a, const PlanCall& b) {
  const auto from = position_of(a), to = position_of(b);
  double sum = 0;
  for (size_t i = 0; i < from.size(); ++i) sum += (from[i] - to[i]) * (from[i] - to[i]);
  return sum;
}

// Solves the normal equations by elimination with pivots; false if they are singular.
bool solve(std::array<Work, kCosts> matrix, Work right, std::span<const size_t> used, Work& solution) {
  std::vector<size_t> rows(used.begin(), used.end());
  for (size_t step = 0; step < rows.size(); ++step) {
    const size_t column = used[step];
    const auto pivot = std::ranges::max_element(rows.begin() + static_cast<std::ptrdiff_t>(step), rows.end(), {},
                                                [&](size_t row) { return std::abs(matrix[row][column]); });
    std::swap(rows[step], *pivot);
    const size_t own = rows[step];
    if (std::abs(matrix[own][column]) < 1e-12) return false;
    for (size_t i = step + 1; i < rows.size(); ++i) {
      const double factor = matrix[rows[i]][column] / matrix[own][column];
      for (const size_t c : used) matrix[rows[i]][c] -= factor * matrix[own][c];
      right[rows[i]] -= factor * right[own];
    }
  }
  for (size_t step = rows.size(); step-- > 0;) {
    double sum = right[rows[step]];
    for (size_t later = step + 1; later < rows.size(); ++later) sum -= matrix[rows[step]][used[later]] * solution[used[later]];
    solution[used[step]] = sum / matrix[rows[step]][used[step]];
  }
  return true;
}

// The costs, none negative, with the least sum of squared relative errors: the best of all choices of the costs that are not 0.
std::vector<double> fit_costs(const std::vector<MeasuredCall>& measured) {
  Work scale{};
  for (const MeasuredCall& one : measured)
    for (size_t i = 0; i < kCosts; ++i) scale[i] = std::max(scale[i], work_of(one.call)[i]);
  std::array<Work, kCosts> matrix{};
  Work right{};
  const double unit = measured.front().seconds;  // so that the solution does not depend on how fast the machine is
  for (const MeasuredCall& one : measured) {
    Work row = work_of(one.call);
    for (size_t i = 0; i < kCosts; ++i) row[i] = scale[i] > 0 ? row[i] / scale[i] * unit / one.seconds : 0;
    for (size_t i = 0; i < kCosts; ++i) {
      for (size_t j = 0; j < kCosts; ++j) matrix[i][j] += row[i] * row[j];
      right[i] += row[i];
    }
  }
  // |A x - 1|^2 = x'Mx - 2 x'r + n, without the n that all choices share.
  const auto error_of = [&](const Work& x) {
    double sum = 0;
    for (size_t i = 0; i < kCosts; ++i) {
      sum -= 2 * x[i] * right[i];
      for (size_t j = 0; j < kCosts; ++j) sum += x[i] * matrix[i][j] * x[j];
    }
    return sum;
  };
  // One cost more must be worth it: rounding of the times takes less off their errors.
  const double least_gain = 1e-6 * static_cast<double>(measured.size());
  std::vector<unsigned> choices(1U << kCosts);
  std::iota(choices.begin(), choices.end(), 0U);
  std::ranges::stable_sort(choices, {}, [](unsigned choice) { return std::popcount(choice); });
  Work best{};
  double least = std::numeric_limits<double>::infinity();
  for (const unsigned choice : choices) {
    std::vector<size_t> used;
    for (size_t i = 0; i < kCosts; ++i)
      if ((choice >> i & 1) != 0 && scale[i] > 0) used.push_back(i);
    if (used.empty() || std::popcount(choice) != static_cast<int>(used.size()) || used.size() > measured.size()) continue;
    Work solution{};
    if (!solve(matrix, right, used, solution) || *std::ranges::min_element(solution) < 0) continue;
    if (const double error = error_of(solution); error < least - least_gain) least = error, best = solution;
  }
  for (size_t i = 0; i < kCosts; ++i)
    if (scale[i] > 0) best[i] *= unit / scale[i];
  return {best.begin(), best.end()};
}

}  // namespace

OpTimes::OpTimes(std::vector<MeasuredCall> measured) : measured_(std::move(measured)), costs_(fit_costs(measured_)) {
  for (const MeasuredCall& one : measured_) {
    const double fitted = fitted_seconds(one.call);
    errors_.push_back(fitted > 0 ? std::log(one.seconds / fitted) : 0);
  }
}

double OpTimes::fitted_seconds(const PlanCall& call) const {
  const Work work = work_of(call);
  double sum = 0;
  for (size_t i = 0; i < kCosts; ++i) sum += costs_[i] * work[i];
  return sum;
}

double OpTimes::seconds(const PlanCall& call) const {
  constexpr double kSame = 1e-3;  // shapes that differ by less are one
  constexpr double kFar = 3;      // octaves at which a measured shape says as little as the sum alone
  double weights = 1 / (kFar * kFar * kFar * kFar), error = 0;
  for (size_t i = 0; i < measured_.size(); ++i) {
    const double distance = squared_distance(call, measured_[i].call);
    if (distance < kSame * kSame) return measured_[i].seconds;
    const double weight = 1 / (distance * distance);
    weights += weight, error += weight * errors_[i];
  }
  return fitted_seconds(call) * std::exp(error / weights);
}

MeasuredOps::MeasuredOps(MeasuredCalls measured) {  // NOLINT(performance-unnecessary-value-param): its values are moved
  for (auto& [name, calls] : measured) ops_.emplace(name, OpTimes(std::move(calls)));
}

std::optional<double> MeasuredOps::seconds(const PlanCall& call) const {
  const auto op = ops_.find(measured_name(call));
  if (op == ops_.end()) return std::nullopt;
  return op->second.seconds(call);
}

std::string measured_name(const PlanCall& call) {
  return size_of(call.dtype) == 1 ? fmt::format("{}_fp8", call.name) : std::string(call.name);
}

}  // namespace trireme
