// Which cores each rank of this machine uses: a pure function of the topology and the options, with the names and the results of
// mpirun (--map-by, --bind-to, --report-bindings) and of the NeMo launcher's NUMA mapping (--numa-mode).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/launch_options.h"
#include "launch/local/local_launch.h"
#include "launch/local/machine_topology.h"

namespace trireme {

enum class MapUnit : uint8_t { node, socket, numa };

struct MapBy {
  int64_t ranks = 1;  // per unit
  MapUnit unit = MapUnit::node;
  int64_t cores = 0;  // of a rank; 0: pe is not given
};
MapBy parse_map_by(const std::string& text);  // "ppr:4:numa:pe=8"; UserError

struct BindingPlan {
  std::vector<RankBinding> ranks;  // by local rank; empty: none is bound
  std::string reason;              // one line for the list of choices
};

// `gpus`: the GPU of each local rank, as the machine numbers them; empty: the ranks use none. UserError if the ranks do not fit,
// as mpirun refuses them.
BindingPlan plan_binding(const MachineTopology& machine, const LaunchOptions& options, int64_t ranks,
                         const std::vector<int64_t>& gpus);

// The part of plan_binding() for --numa-mode.
std::vector<RankBinding> plan_numa_mode(const MachineTopology& machine, const LaunchOptions& options, int64_t ranks,
                                        const std::vector<int64_t>& gpus);

// "rank 1: socket 0[core 2[hwt 0-1]], socket 0[core 3[hwt 0-1]]:[../../BB/BB][../../../..]", as mpirun writes it.
std::string binding_text(const MachineTopology& machine, const RankBinding& binding);

}  // namespace trireme
