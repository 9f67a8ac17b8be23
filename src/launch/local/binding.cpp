#include "launch/local/binding.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"

namespace trireme {
namespace {

// What a rank is bound to. numa is mpirun's own default for more than two ranks.
enum class BindUnit : uint8_t { core, hwthread, numa, none };

BindUnit parse_bind_to(const std::string& text, BindUnit otherwise) {
  if (text.empty()) return otherwise;
  if (text == "core") return BindUnit::core;
  if (text == "hwthread") return BindUnit::hwthread;
  if (text == "none") return BindUnit::none;
  throw UserError("--bind-to {}: use core, hwthread or none", text);
}

int64_t positive_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

// Sets of hardware threads, one per core or per thread, in the order in which mpirun gives them out.
std::vector<std::vector<int>> items_of(const MachineTopology& machine, const std::vector<int>& cores, BindUnit unit) {
  std::vector<std::vector<int>> items;
  for (const int index : cores) {
    const std::vector<int>& cpus = machine.cores[static_cast<size_t>(index)].cpus;
    if (unit == BindUnit::core)
      items.push_back(cpus);
    else
      for (const int cpu : cpus) items.push_back({cpu});
  }
  return items;
}

RankBinding binding_of(const MachineTopology& machine, std::vector<int> cpus) {
  std::ranges::sort(cpus);
  std::set<int> nodes;
  for (const MachineCore& core : machine.cores)
    if (std::ranges::find_first_of(core.cpus, cpus) != core.cpus.end())
      nodes.insert(machine.numa_numbers[static_cast<size_t>(core.numa)]);
  // Every node is no preference, and containers may not be allowed to state one.
  if (std::ssize(nodes) == machine.numas) nodes.clear();
  return {.cpus = std::move(cpus), .nodes = {nodes.begin(), nodes.end()}};
}

std::vector<int> all_cores(const MachineTopology& machine) {
  std::vector<int> cores(machine.cores.size());
  for (size_t i = 0; i < cores.size(); ++i) cores[i] = static_cast<int>(i);
  return cores;
}

std::vector<std::vector<int>> cores_by_unit(const MachineTopology& machine, MapUnit unit) {
  if (unit == MapUnit::node) return {all_cores(machine)};
  std::vector<std::vector<int>> units;
  for (int i = 0; i < (unit == MapUnit::numa ? machine.numas : machine.sockets); ++i)
    units.push_back(unit == MapUnit::numa ? machine.cores_of_numa(i) : machine.cores_of_socket(i));
  std::erase_if(units, [](const std::vector<int>& cores) { return cores.empty(); });
  return units;
}

std::vector<int> cpus_of(const MachineTopology& machine, const std::vector<int>& cores) {
  std::vector<int> cpus;
  for (const int core : cores) {
    const std::vector<int>& own = machine.cores[static_cast<size_t>(core)].cpus;
    cpus.insert(cpus.end(), own.begin(), own.end());
  }
  return cpus;
}

// The NUMA nodes of some cores, as sets of hardware threads.
std::vector<std::vector<int>> numa_items(const MachineTopology& machine, const std::vector<int>& cores) {
  std::vector<std::vector<int>> items;
  for (int numa = 0; numa < machine.numas; ++numa) {
    std::vector<int> own;
    for (const int core : cores)
      if (machine.cores[static_cast<size_t>(core)].numa == numa) own.push_back(core);
    if (!own.empty()) items.push_back(cpus_of(machine, own));
  }
  return items;
}

const char* unit_text(MapUnit unit) {
  constexpr const char* kTexts[] = {"node", "socket", "NUMA node"};
  return kTexts[static_cast<size_t>(unit)];
}

std::vector<RankBinding> map_ranks(const MachineTopology& machine, const LaunchOptions& options, int64_t ranks) {
  const MapBy map = parse_map_by(options.map_by);
  const auto units = cores_by_unit(machine, map.unit);
  if (ranks > map.ranks * std::ssize(units))
    throw UserError("--map-by {} places {} ranks on {} {}{}, and --ranks is {}", options.map_by, map.ranks * std::ssize(units),
                    units.size(), unit_text(map.unit), units.size() == 1 ? "" : "s", ranks);
  constexpr int64_t kFewRanks = 2;  // mpirun binds so few to cores, and more to NUMA nodes
  const BindUnit bind = parse_bind_to(options.bind_to, map.cores > 0 || ranks <= kFewRanks ? BindUnit::core : BindUnit::numa);
  if (bind == BindUnit::none) return {};
  std::vector<RankBinding> bindings;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const auto& cores = units[static_cast<size_t>(rank / map.ranks)];
    const auto items = bind == BindUnit::numa ? numa_items(machine, cores) : items_of(machine, cores, bind);
    const int64_t own = rank % map.ranks, each = std::max<int64_t>(map.cores, 1);
    if (bind == BindUnit::numa) {
      bindings.push_back(binding_of(machine, items[static_cast<size_t>(own) % items.size()]));
      continue;
    }
    if ((own + 1) * each > std::ssize(items))
      throw UserError("--map-by {} needs {} {} on every {}, and there {} {}; use fewer ranks or --bind-to none", options.map_by,
                      map.ranks * each, bind == BindUnit::core ? "cores" : "hardware threads", unit_text(map.unit),
                      items.size() == 1 ? "is" : "are", items.size());
    std::vector<int> cpus;
    for (int64_t i = own * each; i < (own + 1) * each; ++i)
      cpus.insert(cpus.end(), items[static_cast<size_t>(i)].begin(), items[static_cast<size_t>(i)].end());
    bindings.push_back(binding_of(machine, std::move(cpus)));
  }
  return bindings;
}

// An even share of the cores of the machine, or of those near the GPU of each rank.
std::vector<RankBinding> share_cores(const MachineTopology& machine, int64_t ranks, const std::vector<int64_t>& gpus,
                                     BindUnit unit) {
  const auto place_of = [&](int64_t rank) {
    const auto gpu = gpus.empty() ? size_t{0} : static_cast<size_t>(gpus[static_cast<size_t>(rank)]);
    return gpus.empty() || gpu >= machine.gpu_numas.size() ? -1 : machine.gpu_numas[gpu];
  };
  std::vector<int64_t> places(static_cast<size_t>(ranks));
  for (int64_t rank = 0; rank < ranks; ++rank) places[static_cast<size_t>(rank)] = place_of(rank);
  // Ranks whose place is unknown could take the cores of others.
  if (std::ranges::find(places, -1) != places.end()) std::ranges::fill(places, -1);
  std::vector<RankBinding> bindings;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t place = places[static_cast<size_t>(rank)];
    const auto items = items_of(machine, place < 0 ? all_cores(machine) : machine.cores_of_numa(static_cast<int>(place)), unit);
    const int64_t sharing = std::ranges::count(places, place);
    const int64_t before = std::count(places.begin(), places.begin() + rank, place);
    const int64_t each = std::ssize(items) / sharing;
    if (each == 0) return {};
    std::vector<int> cpus;
    for (int64_t i = before * each; i < (before + 1) * each; ++i)
      cpus.insert(cpus.end(), items[static_cast<size_t>(i)].begin(), items[static_cast<size_t>(i)].end());
    bindings.push_back(binding_of(machine, std::move(cpus)));
  }
  return bindings;
}

}  // namespace

MapBy parse_map_by(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ':')
      words.emplace_back();
    else
      words.back() += c;
  }
  MapBy map;
  bool is_right = words.size() >= 3 && words.size() <= 4 && words[0] == "ppr";
  if (is_right) {
    map.ranks = positive_number(words[1]);
    const std::string& unit = words[2];
    map.unit = unit == "numa" ? MapUnit::numa : unit == "socket" ? MapUnit::socket : MapUnit::node;
    is_right = map.ranks > 0 && (unit == "numa" || unit == "socket" || unit == "package" || unit == "node");
    if (unit == "package") map.unit = MapUnit::socket;
  }
  if (is_right && words.size() == 4) {
    const std::string_view cores = words[3];
    const bool names_cores = cores.starts_with("pe=") || cores.starts_with("PE=");
    map.cores = names_cores ? positive_number(cores.substr(3)) : 0;
    is_right = map.cores > 0;
  }
  if (!is_right) throw UserError("--map-by {}: use ppr:N:UNIT or ppr:N:UNIT:pe=K, with UNIT numa, socket or node", text);
  return map;
}

BindingPlan plan_binding(const MachineTopology& machine, const LaunchOptions& options, int64_t ranks,
                         const std::vector<int64_t>& gpus) {
  const BindUnit asked = parse_bind_to(options.bind_to, BindUnit::numa);  // numa: not given
  if (!options.map_by.empty() && !options.numa_mode.empty())
    throw UserError("--map-by {} and --numa-mode {} both choose cores; give one of them", options.map_by, options.numa_mode);
  if (!options.map_by.empty()) return {map_ranks(machine, options, ranks), "--map-by " + options.map_by};
  if (!options.numa_mode.empty()) return {plan_numa_mode(machine, options, ranks, gpus), "--numa-mode " + options.numa_mode};
  if (asked == BindUnit::none) return {{}, "--bind-to none"};
  const auto cores = std::ssize(machine.cores);
  const BindUnit unit = asked == BindUnit::hwthread ? BindUnit::hwthread : BindUnit::core;
  const auto items = std::ssize(items_of(machine, all_cores(machine), unit));
  if (asked != BindUnit::numa && ranks > items)
    throw UserError("--bind-to {}: {} ranks and {} {}; use fewer ranks or --bind-to none", options.bind_to, ranks, items,
                    unit == BindUnit::core ? "cores" : "hardware threads");
  if (asked == BindUnit::numa && ranks == 1 && gpus.empty()) return {{}, "one rank uses all cores"};
  if (asked == BindUnit::numa && ranks > cores) return {{}, fmt::format("{} ranks share {} cores", ranks, cores)};
  return {share_cores(machine, ranks, gpus, unit),
          gpus.empty() ? "an even share of the cores" : "cores near the GPU of the rank"};
}

std::string binding_text(const MachineTopology& machine, const RankBinding& binding) {
  if (binding.cpus.empty()) return "is not bound";
  std::string names, map;
  int socket = -1;
  for (size_t i = 0; i < machine.cores.size(); ++i) {
    const MachineCore& core = machine.cores[i];
    if (core.socket != socket) map += socket < 0 ? "[" : "][";
    map += core.socket != socket ? "" : "/";
    socket = core.socket;
    std::string threads;
    for (size_t thread = 0; thread < core.cpus.size(); ++thread) {
      const bool is_bound = std::ranges::find(binding.cpus, core.cpus[thread]) != binding.cpus.end();
      map += is_bound ? 'B' : '.';
      if (is_bound) threads += fmt::format("{}{}", threads.empty() ? "" : ",", thread);
    }
    const bool has_all = core.cpus.size() > 1 && std::ranges::count(threads, ',') == std::ssize(core.cpus) - 1;
    if (has_all) threads = fmt::format("0-{}", core.cpus.size() - 1);
    if (!threads.empty())
      names += fmt::format("{}socket {}[core {}[hwt {}]]", names.empty() ? "" : ", ", core.socket, i, threads);
  }
  return fmt::format("bound to {}:{}]", names, map);
}

}  // namespace trireme
