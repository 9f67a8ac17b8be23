#include "launch/local/machine_topology.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, decltype(&hwloc_topology_destroy)>;

Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Failure("hwloc cannot describe this machine");
  Topology topology(raw, hwloc_topology_destroy);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  // Where a GPU is attached is known without the libraries of its maker, which take long to start.
  for (const char* component : {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero"})
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  if (hwloc_topology_load(raw) != 0) throw Failure("hwloc cannot describe this machine");
  return topology;
}

// What taskset, a scheduler or a container leaves to this process; nothing for a machine that is only described.
std::vector<int> allowed_cpus(hwloc_topology_t topology) {
  std::vector<int> cpus;
  if (hwloc_topology_is_thissystem(topology) == 0) return cpus;
  const std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, decltype(&hwloc_bitmap_free)> set(hwloc_bitmap_alloc(),
                                                                                                 hwloc_bitmap_free);
  if (hwloc_get_cpubind(topology, set.get(), HWLOC_CPUBIND_PROCESS) != 0) return cpus;
  for (int cpu = hwloc_bitmap_first(set.get()); cpu >= 0; cpu = hwloc_bitmap_next(set.get(), cpu)) cpus.push_back(cpu);
  return cpus;
}

int index_of_ancestor(hwloc_topology_t topology, hwloc_obj_t object, hwloc_obj_type_t type) {
  const hwloc_obj_t found = hwloc_get_ancestor_obj_by_type(topology, type, object);
  return found == nullptr ? 0 : static_cast<int>(found->logical_index);
}

int numa_index(hwloc_topology_t topology, hwloc_const_cpuset_t cpus) {
  for (int i = 0; i < hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE); ++i)
    if (const hwloc_obj_t numa = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
        hwloc_bitmap_intersects(numa->cpuset, cpus) != 0)
      return i;
  return 0;
}

// GPUs by their PCI address, which is the order of CUDA_DEVICE_ORDER=PCI_BUS_ID and, on machines with GPUs of one kind, of CUDA.
std::vector<int> gpu_numas_of(hwloc_topology_t topology) {
  constexpr unsigned kNvidia = 0x10de, kDisplayClass = 0x03;
  std::map<std::vector<unsigned>, int> found;
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_pcidev(topology, device)) != nullptr;) {
    const auto& pci = device->attr->pcidev;
    if (pci.vendor_id != kNvidia || pci.class_id >> 8 != kDisplayClass) continue;
    const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, device);
    const bool is_local = place != nullptr && place->cpuset != nullptr && place->type != HWLOC_OBJ_MACHINE;
    found[{pci.domain, pci.bus, pci.dev, pci.func}] = is_local ? numa_index(topology, place->cpuset) : -1;
  }
  std::vector<int> numas;
  for (const auto& [address, numa] : found) numas.push_back(numa);
  return numas;
}

std::vector<int> cores_where(const MachineTopology& machine, auto is_wanted) {
  std::vector<int> found;
  for (int i = 0; i < static_cast<int>(machine.cores.size()); ++i)
    if (is_wanted(machine.cores[static_cast<size_t>(i)])) found.push_back(i);
  return found;
}

}  // namespace

std::vector<int> MachineTopology::cores_of_numa(int numa) const {
  return cores_where(*this, [=](const MachineCore& core) { return core.numa == numa; });
}

std::vector<int> MachineTopology::cores_of_socket(int socket) const {
  return cores_where(*this, [=](const MachineCore& core) { return core.socket == socket; });
}

MachineTopology read_topology() {
  const Topology topology = load_topology();
  const std::vector<int> allowed = allowed_cpus(topology.get());
  MachineTopology machine;
  machine.sockets = std::max(hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_PACKAGE), 1);
  machine.numas = std::max(hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_NUMANODE), 1);
  for (int i = 0; i < machine.numas; ++i) {
    const hwloc_obj_t numa = hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
    machine.numa_numbers.push_back(numa == nullptr ? 0 : static_cast<int>(numa->os_index));
  }
  for (int i = 0; i < hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_CORE); ++i) {
    const hwloc_obj_t core = hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_CORE, static_cast<unsigned>(i));
    MachineCore own{.socket = index_of_ancestor(topology.get(), core, HWLOC_OBJ_PACKAGE),
                    .numa = numa_index(topology.get(), core->cpuset),
                    .cpus = {}};
    for (int cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(core->cpuset, cpu))
      if (allowed.empty() || std::ranges::find(allowed, cpu) != allowed.end()) own.cpus.push_back(cpu);
    if (!own.cpus.empty()) machine.cores.push_back(std::move(own));
  }
  machine.gpu_numas = gpu_numas_of(topology.get());
  if (machine.cores.empty()) throw Failure("hwloc finds no core that this process may use");
  return machine;
}

}  // namespace trireme
