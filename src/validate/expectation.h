// What a platform of the hardware catalogue should reach.
#pragma once

#include <string>

#include "plan/hardware.h"

namespace trireme {

// 0: not known. A measurement is a fault below kLeastShare of the value.
struct Expectation {
  std::string platform;  // empty: none
  double flops = 0;      // per second, of a large bf16 GEMM
  double bytes = 0;      // per second, read and written by a copy
  double pair = 0;       // bytes per second and direction between two nodes, all GPUs of a node together; of two GPUs on one node
  double bus = 0;        // bytes per second: busbw of a large all-reduce
};

// nccl-tests calls a bandwidth bad below 0.9 of what is expected; the catalogue's shares are fitted to large runs, not to the
// best that was seen, so healthy hardware is above them.
inline constexpr double kLeastShare = 0.9;

struct WorldSize {
  int nodes = 1, ranks_per_node = 1;
};
Expectation expectation_of(const Platform& platform, const WorldSize& world);

}  // namespace trireme
