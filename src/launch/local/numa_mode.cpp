// The NUMA mapping of the NeMo launcher: every rank takes cores of the NUMA node (scope node) or the socket of its GPU. Ranks
// without GPUs are spread evenly over the nodes or sockets.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "launch/local/binding.h"

namespace trireme {
namespace {

enum class NumaMode : uint8_t { all, single, single_unique, unique_interleaved, unique_contiguous };

NumaMode parse_numa_mode(const std::string& text) {
  constexpr const char* kNames[] = {"all", "single", "single_unique", "unique_interleaved", "unique_contiguous"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (text == kNames[i]) return static_cast<NumaMode>(i);
  throw UserError("--numa-mode {}: use all, single, single_unique, unique_interleaved or unique_contiguous", text);
}

bool one_of_two(const char* option, const std::string& text, const char* usual, const char* other) {
  if (text.empty() || text == usual) return true;
  if (text == other) return false;
  throw UserError("--{} {}: use {} or {}", option, text, usual, other);
}

// The ranks of one NUMA node or socket, and its cores.
struct NumaGroup {
  std::vector<int> cores;
  std::vector<int64_t> ranks;
};

std::vector<NumaGroup> group_ranks(const MachineTopology& machine, bool is_node_scope, int64_t ranks,
                                   const std::vector<int64_t>& gpus) {
  std::vector<NumaGroup> groups;
  for (int i = 0; i < (is_node_scope ? machine.numas : machine.sockets); ++i)
    groups.push_back({is_node_scope ? machine.cores_of_numa(i) : machine.cores_of_socket(i), {}});
  const auto socket_of = [&](int numa) {
    const auto cores = machine.cores_of_numa(numa);
    return cores.empty() ? 0 : machine.cores[static_cast<size_t>(cores.front())].socket;
  };
  for (int64_t rank = 0; rank < ranks; ++rank) {
    auto group = static_cast<size_t>(rank * std::ssize(groups) / ranks);
    if (!gpus.empty()) {
      const auto gpu = static_cast<size_t>(gpus[static_cast<size_t>(rank)]);
      const int numa = gpu < machine.gpu_numas.size() ? machine.gpu_numas[gpu] : -1;
      if (numa < 0) throw UserError("--numa-mode: this machine does not say which NUMA node GPU {} is attached to", gpu);
      group = static_cast<size_t>(is_node_scope ? numa : socket_of(numa));
    }
    groups[group].ranks.push_back(rank);
  }
  std::erase_if(groups, [](const NumaGroup& group) { return group.ranks.empty(); });
  return groups;
}

// The cores of the member `own` of a group.
std::vector<int> cores_of_member(const NumaGroup& group, NumaMode mode, int64_t own, int64_t each) {
  const int64_t members = std::ssize(group.ranks);
  std::vector<int> cores;
  if (mode == NumaMode::all) return group.cores;
  if (mode == NumaMode::single) return {group.cores.front()};
  if (mode == NumaMode::single_unique) return {group.cores[static_cast<size_t>(own)]};
  for (int64_t i = 0; i < each; ++i)
    cores.push_back(group.cores[static_cast<size_t>(mode == NumaMode::unique_interleaved ? own + i * members : own * each + i)]);
  return cores;
}

}  // namespace

std::vector<RankBinding> plan_numa_mode(const MachineTopology& machine, const LaunchOptions& options, int64_t ranks,
                                        const std::vector<int64_t>& gpus) {
  const NumaMode mode = parse_numa_mode(options.numa_mode);
  const bool is_node_scope = one_of_two("numa-scope", options.numa_scope, "node", "socket");
  const bool takes_all_threads = one_of_two("numa-cores", options.numa_cores, "all_logical", "single_logical");
  if (options.numa_max_cores < std::max<int64_t>(options.numa_min_cores, 1))
    throw UserError("--numa-max-cores {} is less than --numa-min-cores {}", options.numa_max_cores, options.numa_min_cores);
  const auto groups = group_ranks(machine, is_node_scope, ranks, gpus);
  const auto share = [](const NumaGroup& group) { return std::ssize(group.cores) / std::ssize(group.ranks); };
  const int64_t least = share(std::ranges::min(groups, {}, share));
  if (mode != NumaMode::all && mode != NumaMode::single && least < std::max<int64_t>(options.numa_min_cores, 1))
    throw UserError("--numa-mode {}: {} ranks share {} cores of one {}, and each needs {}; use fewer ranks, or all or single",
                    options.numa_mode, std::ranges::min(groups, {}, share).ranks.size(),
                    std::ranges::min(groups, {}, share).cores.size(), is_node_scope ? "NUMA node" : "socket",
                    std::max<int64_t>(options.numa_min_cores, 1));
  std::vector<RankBinding> bindings(static_cast<size_t>(ranks));
  for (const NumaGroup& group : groups) {
    const int64_t each = std::min(options.numa_balanced ? least : share(group), options.numa_max_cores);
    for (int64_t own = 0; own < std::ssize(group.ranks); ++own) {
      RankBinding& binding = bindings[static_cast<size_t>(group.ranks[static_cast<size_t>(own)])];
      for (const int index : cores_of_member(group, mode, own, each)) {
        const MachineCore& core = machine.cores[static_cast<size_t>(index)];
        const auto end = takes_all_threads ? core.cpus.end() : core.cpus.begin() + 1;
        binding.cpus.insert(binding.cpus.end(), core.cpus.begin(), end);
        const int node = machine.numa_numbers[static_cast<size_t>(core.numa)];
        const bool is_new = std::ranges::find(binding.nodes, node) == binding.nodes.end();
        if (is_new && machine.numas > 1) binding.nodes.push_back(node);
      }
      std::ranges::sort(binding.cpus);
    }
  }
  return bindings;
}

}  // namespace trireme
