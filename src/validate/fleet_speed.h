// The devices of all ranks: that they compute right, and which is slower than the others or than its kind should be.
#pragma once

#include <functional>

#include "validate/report.h"

namespace trireme {

struct FleetRequest {
  double window = 1;  // seconds of each measurement
  Expectation expected;
};

// All ranks call it together. The results are on rank 0, with what they are named for.
struct FleetSpeed {
  std::vector<RankResult> ranks;
  std::vector<Finding> findings;
};
FleetSpeed measure_fleet(RankGroup& here, const FleetRequest& request, const std::function<void(const std::string&)>& progress);

}  // namespace trireme
