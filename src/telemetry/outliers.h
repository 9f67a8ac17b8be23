// Detects a value that does not fit the recent ones: a loss spike, a jump of the gradient norm.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace trireme {

// z = (value - mean) / standard deviation of the last 100 values, once there are 20. A value with |z| above the threshold is an
// outlier.
//
// The steep fall at the start of a run is not an outlier: it is inside the window and widens the deviation (along a straight line
// z stays near sqrt(3), whatever the slope). In exchange, detection is less sensitive for about the first hundred steps. A
// deviation below 0.1% of the mean counts as 0.1%, so that nearly constant values do not raise alarms about rounding.
//
// An outlier does not enter the window, so that one spike does not hide the next. But 20 outliers in a row are a new level, and
// the window restarts. Non-finite values are ignored, because their step is skipped anyway.
class OutlierDetector {
 public:
  static constexpr int64_t kWindow = 100;
  static constexpr int64_t kLeast = 20;

  explicit OutlierDetector(double threshold = 6) : threshold_(threshold) {}

  // Returns z if the value is an outlier among the previous ones; then adds the value.
  std::optional<double> judge(double value);

 private:
  struct Spread {
    double mean = 0, deviation = 0;
  };
  Spread spread() const;

  double threshold_;
  std::array<double, kWindow> values_{};
  int64_t remembered_ = 0;
  int64_t outliers_in_a_row_ = 0;
};

}  // namespace trireme
