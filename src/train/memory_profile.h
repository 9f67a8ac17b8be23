// Memory over the course of a step: how many bytes are in use at each call of the compute stream, and which tensors are at the
// peak. In use means written and still to be read, which may be less than what is allocated.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/memory_plan.h"

namespace trireme {

struct MemoryProfile {
  struct Alive {
    std::string name;
    int64_t count = 0;  // tensors of that name
    int64_t bytes = 0;  // of all of them
  };

  std::vector<int64_t> over_step;  // the most in use in each of up to kColumns equal parts of the step
  int64_t peak = 0;
  std::string peak_at;         // "backward of micro-batch 3"
  std::vector<Alive> at_peak;  // the largest first
  static constexpr int64_t kColumns = 200;
};

MemoryProfile profile_memory(const MemoryPlan& plan);  // of the recorded step

// Two lines: "in use  ▁▂▅▇█▇▅▂▁" and "peak    62.5 GiB in backward of micro-batch 3: 84 qkv 5.9 GiB, ...".
std::string text_of(const MemoryProfile& profile);
nlohmann::ordered_json json_of(const MemoryProfile& profile);

}  // namespace trireme
