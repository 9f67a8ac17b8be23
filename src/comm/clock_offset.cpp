#include "comm/clock_offset.h"

#include <algorithm>
#include <cmath>

namespace trireme {

double clock_offset(std::span<const ClockSample> samples) {
  if (samples.empty()) return 0;
  const auto trip = [](const ClockSample& sample) { return sample.received - sample.sent; };
  const ClockSample best = *std::ranges::min_element(samples, {}, trip);
  const double offset = best.answered - (best.sent + best.received) / 2;
  return std::abs(offset) <= trip(best) / 2 ? 0 : offset;
}

}  // namespace trireme
