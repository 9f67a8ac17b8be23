#include "validate/expectation.h"

#include <algorithm>

namespace trireme {

Expectation expectation_of(const Platform& platform, const WorldSize& world) {
  constexpr double kGiga = 1e9, kTera = 1e12;
  const GpuModel& gpu = platform.gpu;
  const double nvlink = platform.nvlink_bandwidth * platform.nvlink_share * kGiga;
  const double network = platform.network_bandwidth * platform.network_share * kGiga * world.ranks_per_node;
  const bool is_one_node = world.nodes == 1;
  return {.platform = platform.name,
          .flops = gpu.bf16_tflops * gpu.bf16_share * kTera,
          .bytes = gpu.memory_bandwidth * gpu.copy_share * kGiga,
          .pair = is_one_node ? nvlink : network,
          // A ring enters and leaves each node once per rank: NVLink inside a node is the limit of the sum.
          .bus = is_one_node ? nvlink : std::min(nvlink, network)};
}

}  // namespace trireme
