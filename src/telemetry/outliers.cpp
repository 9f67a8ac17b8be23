#include "telemetry/outliers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace trireme {

std::optional<double> OutlierDetector::judge(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (remembered_ >= kLeast) {
    const auto [mean, deviation] = spread();
    const double z = deviation > 0 ? (value - mean) / deviation : 0;
    if (std::abs(z) > threshold_) {
      if (++outliers_in_a_row_ == kLeast) remembered_ = outliers_in_a_row_ = 0;
      return z;
    }
  }
  outliers_in_a_row_ = 0;
  values_[static_cast<size_t>(remembered_++ % kWindow)] = value;
  return std::nullopt;
}

OutlierDetector::Spread OutlierDetector::spread() const {
  constexpr double kLeastRelativeDeviation = 1e-3;
  const std::span values(values_.data(), static_cast<size_t>(std::min(remembered_, kWindow)));
  const double count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::max(std::sqrt(squares / (count - 1)), kLeastRelativeDeviation * std::abs(mean))};
}

}  // namespace trireme
