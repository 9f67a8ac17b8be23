// The sockets, NUMA nodes, cores and GPUs of this machine, as far as this process may use them.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct MachineCore {
  int socket = 0, numa = 0;  // indices in the order of the machine
  std::vector<int> cpus;     // its hardware threads: the system's numbers
};

struct MachineTopology {
  std::vector<MachineCore> cores;  // in the order of the machine
  int sockets = 1, numas = 1;
  std::vector<int> numa_numbers;  // the system's, by index
  std::vector<int> gpu_numas;     // by the number of the GPU: the NUMA node that it is attached to; -1: unknown

  std::vector<int> cores_of_numa(int numa) const;  // indices into `cores`
  std::vector<int> cores_of_socket(int socket) const;
};

// Read with hwloc, which also takes a description from HWLOC_XMLFILE.
MachineTopology read_topology();

}  // namespace trireme
