#include "validate/inventory.h"

#include <fmt/ranges.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <span>
#include <sstream>

#include "base/build_info.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/process.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "base/units.h"
#include "comm/nccl_topology.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostOutput = 1 << 20;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return std::string(trimmed(line.substr(0, 256), " \t\r"));
}

std::string first_line_of(const std::vector<std::string>& command) {
  if (find_program(command.front()).empty()) return "";
  try {
    const CommandOutput result = run_command(command, kMostOutput);
    return result.status == 0 ? std::string(trimmed(result.output.substr(0, result.output.find('\n')))) : "";
  } catch (const Failure&) {
    return "";
  }
}

void add(Facts& facts, const char* name, const std::string& value) {
  if (!value.empty()) facts[name] = value;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// "model name	: AMD EPYC" of /proc/cpuinfo.
std::string cpu_model(const fs::path& root) {
  std::ifstream file(root / "proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return std::string(trimmed(std::string_view(line).substr(line.find(':') + 1), " \t"));
  return "";
}

void add_processors(Facts& facts, const fs::path& root) {
  add(facts, "cpu", cpu_model(root));
  int64_t cores = 0, numas = 0, throttled = 0;
  std::set<std::string> governors;
  const auto is_numbered = [](const std::string& name, size_t prefix) {
    return name.size() > prefix && std::ranges::all_of(name.substr(prefix), [](char c) { return c >= '0' && c <= '9'; });
  };
  const fs::path cpus = root / "sys/devices/system/cpu";
  for (const std::string& name : names_in(cpus)) {
    if (!name.starts_with("cpu") || !is_numbered(name, 3)) continue;
    ++cores;
    if (const std::string governor = first_line(cpus / name / "cpufreq/scaling_governor"); !governor.empty())
      governors.insert(governor);
    throttled += std::atoll(first_line(cpus / name / "thermal_throttle/core_throttle_count").c_str());
  }
  for (const std::string& name : names_in(root / "sys/devices/system/node"))
    numas += name.starts_with("node") && is_numbered(name, 4) ? 1 : 0;
  if (cores > 0) add(facts, "cores", std::to_string(cores));
  if (numas > 0) add(facts, "numa_nodes", std::to_string(numas));
  add(facts, "governor", fmt::format("{}", fmt::join(governors, ",")));
  if (throttled > 0) add(facts, "cpu_throttled", std::to_string(throttled));
}

void add_memory(Facts& facts, const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kib = 0;
    words >> name >> kib;
    if (name == "MemTotal:") add(facts, "memory_gib", fmt::format("{:.1f}", static_cast<double>(kib) / (1 << 20)));
    if (name == "HugePages_Total:") add(facts, "huge_pages", std::to_string(kib));
  }
  struct statvfs shm {};
  if (::statvfs((root / "dev/shm").c_str(), &shm) == 0)
    add(facts, "shm_bytes", std::to_string(static_cast<int64_t>(shm.f_blocks) * static_cast<int64_t>(shm.f_frsize)));
}

std::string limit_text(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return "";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur);
}

void add_limits(Facts& facts) {
  add(facts, "memlock", limit_text(RLIMIT_MEMLOCK));
  add(facts, "nofile", limit_text(RLIMIT_NOFILE));
}

// Ports of InfiniBand and RoCE cards: "mlx5_0:1 4: ACTIVE 400 Gb/sec".
void add_network(Facts& facts, const fs::path& root) {
  const fs::path cards = root / "sys/class/infiniband";
  std::vector<std::string> ports, inactive;
  for (const std::string& card : names_in(cards))
    for (const std::string& port : names_in(cards / card / "ports")) {
      const std::string state = first_line(cards / card / "ports" / port / "state");
      ports.push_back(fmt::format("{}:{} {}", card, port, first_line(cards / card / "ports" / port / "rate")));
      if (state.find("ACTIVE") == std::string::npos) inactive.push_back(fmt::format("{}:{} {}", card, port, state));
    }
  add(facts, "infiniband_ports", std::to_string(ports.size()));
  add(facts, "infiniband", fmt::format("{}", fmt::join(ports, ", ")));
  add(facts, "infiniband_inactive", fmt::format("{}", fmt::join(inactive, ", ")));
  std::error_code failed;
  if (!ports.empty()) add(facts, "dev_infiniband", fs::exists(root / "dev/infiniband/uverbs0", failed) ? "yes" : "no");
  std::string ofed = first_line_of({"ofed_info", "-s"});
  if (ofed.empty()) ofed = first_line(root / "sys/module/mlx5_core/version");
  add(facts, "ofed", ofed);
}

// With a checksum, because nodes may have the same devices in other places.
void add_topology(Facts& facts, const fs::path& root) {
  const NcclTopology topology = read_nccl_topology(root);
  if (topology.gpus + topology.cards > 0)
    add(facts, "topology", fmt::format("{}, {:08x}", topology.summary(), crc32c(std::as_bytes(std::span(topology.xml)))));
}

void add_system(Facts& facts) {
  utsname system{};
  if (::uname(&system) == 0) add(facts, "kernel", system.release);
  add(facts, "trireme", fmt::format("{} ({})", kVersion, kCommit));
  add(facts, "program", build_id());
  add(facts, "mpi", first_line_of({"mpirun", "--version"}));
  std::vector<std::string> runtimes;
  for (const char* name : {"docker", "podman", "enroot", "apptainer", "singularity", "ctr"})
    if (!find_program(name).empty()) runtimes.emplace_back(name);
  add(facts, "container_runtimes", fmt::format("{}", fmt::join(runtimes, ",")));
  const std::string host = host_name();
  addrinfo* found = nullptr;
  const bool resolves = ::getaddrinfo(host.c_str(), nullptr, nullptr, &found) == 0;
  if (found != nullptr) ::freeaddrinfo(found);
  add(facts, "name_resolves", resolves ? "yes" : "no");
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(',', begin), line.size());
    cells.emplace_back(trimmed(std::string_view(line).substr(begin, end - begin), " \t\r"));
    begin = end + 1;
  }
  return cells;
}

}  // namespace

Facts gpu_facts(std::string_view csv) {
  enum Column : uint8_t { name, driver, memory, ecc, throttle, max_clock, clock, pcie_width, temperature, columns };
  // The bits of nvidia-smi's clock event reasons that mean trouble: hardware slowdown, software thermal, hardware thermal, power
  // brake.
  constexpr uint64_t kTrouble = 0x8 | 0x20 | 0x40 | 0x80;
  std::istringstream lines{std::string(csv)};
  std::vector<std::string> names, memories, widths, clocks, faulty, throttled;
  std::set<std::string> drivers;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() != columns) continue;
    const size_t gpu = names.size();
    names.push_back(cells[name]);
    memories.push_back(cells[memory]);
    widths.push_back(cells[pcie_width]);
    clocks.push_back(cells[max_clock]);
    drivers.insert(cells[driver]);
    if (std::atoll(cells[ecc].c_str()) > 0) faulty.push_back(fmt::format("GPU {}: {}", gpu, cells[ecc]));
    if ((std::strtoull(cells[throttle].c_str(), nullptr, 16) & kTrouble) != 0)
      throttled.push_back(fmt::format("GPU {}: {} at {} MHz, {} C", gpu, cells[throttle], cells[clock], cells[temperature]));
  }
  Facts facts;
  if (names.empty()) return facts;
  add(facts, "gpus", std::to_string(names.size()));
  add(facts, "gpu_names", fmt::format("{}", fmt::join(names, ", ")));
  add(facts, "gpu_driver", fmt::format("{}", fmt::join(drivers, ", ")));
  add(facts, "gpu_memory_mib", fmt::format("{}", fmt::join(memories, ", ")));
  add(facts, "gpu_max_clocks", fmt::format("{}", fmt::join(clocks, ", ")));
  add(facts, "gpu_pcie_width", fmt::format("{}", fmt::join(widths, ", ")));
  add(facts, "gpu_ecc_errors", fmt::format("{}", fmt::join(faulty, "; ")));
  add(facts, "gpu_throttled", fmt::format("{}", fmt::join(throttled, "; ")));
  return facts;
}

Facts read_inventory(const fs::path& root) {
  Facts facts;
  add_processors(facts, root);
  add_memory(facts, root);
  add_limits(facts);
  add_network(facts, root);
  add_topology(facts, root);
  add_system(facts);
  if (find_program("nvidia-smi").empty()) return facts;
  try {
    facts.merge(gpu_facts(
        run_command({"nvidia-smi", fmt::format("--query-gpu={}", kGpuQuery), "--format=csv,noheader,nounits"}, kMostOutput)
            .output));
  } catch (const Failure&) {  // a driver that does not answer: the GPU count of the other nodes shows it
  }
  return facts;
}

std::string inventory_line(const Facts& facts) {
  const auto fact = [&](const char* name) {
    const auto found = facts.find(name);
    return found == facts.end() ? std::string() : found->second;
  };
  std::string line =
      fmt::format("{} cores of {}, {} GiB, kernel {}", fact("cores"), fact("cpu"), fact("memory_gib"), fact("kernel"));
  if (const std::string gpus = fact("gpus"); !gpus.empty())
    line +=
        fmt::format(", {} x {}, driver {}", gpus, fact("gpu_names").substr(0, fact("gpu_names").find(',')), fact("gpu_driver"));
  if (const std::string ports = fact("infiniband_ports"); ports != "0") line += fmt::format(", {} InfiniBand ports", ports);
  return line;
}

}  // namespace trireme
