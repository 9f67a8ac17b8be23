// Measures this machine for the planner: `trireme plan --measure`. All ranks call it together, each on its own device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/probe/collective_test.h"
#include "plan/measured_machine.h"
#include "plan/probe_run.h"

namespace trireme {

enum class MeasureDepth : uint8_t { quick, full };  // quick: two tiny models only, for tests and a look

struct MeasureRequest {
  MeasureDepth depth = MeasureDepth::full;
  std::vector<ProbeModel> models;
  std::vector<std::string> formats;
  double window = 0.3;  // seconds of each measurement, about
  int rounds = 3;       // over all models, because the speed of a machine changes while it works
  int64_t threads = 0;  // of a rank; 0: a GPU
  int64_t memory = 0;   // bytes of a rank's device, or its share of the host's
  int64_t ranks_per_node = 1;
  int64_t largest_collective = 0;
  std::function<void(const std::string&)> progress;  // called on rank 0
};

// The usual models and formats for this device.
MeasureRequest measure_request(Backend& backend, int64_t threads, MeasureDepth depth);

// The hardware file, on rank 0.
Tree measure_machine(RankGroup& here, const MeasureRequest& request);

}  // namespace trireme
