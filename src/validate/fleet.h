// Which of many equal parts is slower than the others. The reference is the fleet's median, so no table of speeds is needed.
#pragma once

#include <cstddef>
#include <vector>

namespace trireme {

// A part is slow below median - deviations * sigma. sigma is the robust standard deviation of the fleet (1.4826 times the median
// absolute deviation), but at least `floor` of the median: in a fleet of equal parts the deviation is nearly 0, and noise would
// be named. Below `always` of the median a part is slow whatever the deviation is, so that a noisy fleet does not hide it.
struct Tolerance {
  double floor = 0, deviations = 0, always = 0;
};

// GPUs of one kind differ by about 1% in GEMMs and less in copies, so 5 deviations name one that is 5% slow.
inline constexpr Tolerance kDeviceTolerance{.floor = 0.01, .deviations = 5, .always = 0.7};
// CPU ranks share their cores with the system: windows of a second differ by up to 6% on idle machines. 30% is far outside.
inline constexpr Tolerance kHostTolerance{.floor = 0.06, .deviations = 5, .always = 0.65};

struct FleetLimit {
  double median = 0;  // for an even number of values the larger one of the middle: of two ranks the slower one is named
  double lowest = 0;  // that is not slow
};

FleetLimit limit_of(const std::vector<double>& rates, const Tolerance& tolerance);  // of at least one rate
std::vector<size_t> slow_parts(const std::vector<double>& rates, const Tolerance& tolerance);

}  // namespace trireme
