#include "validate/inventory_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/units.h"

namespace trireme {
namespace {

enum class Rule : uint8_t {
  equal,     // on all nodes; the most frequent value is the expected one
  near,      // within `number` of the most frequent value, as a share of it
  at_least,  // `number`, or "unlimited"
  at_most,   // `number`, without its sign
  absent,    // any value is a fault
  is,        // `text`
};

struct FactCheck {
  const char* fact;
  const char* what;
  Rule rule;
  FindingKind kind;
  double number;
  const char* text;     // of Rule::is
  const char* only_if;  // a fact with a value other than 0, else the check is left out; null: always
  const char* advice;
};

constexpr auto kFail = FindingKind::failure;
constexpr auto kWarn = FindingKind::warning;
constexpr double kGiB = 1073741824.0;

// Every check of the inventory, in the order of its findings.
constexpr std::array kFactChecks{
    FactCheck{"gpus", "GPUs", Rule::equal, kFail, 0, "", nullptr, "look for Xid lines in dmesg and power the node off and on"},
    FactCheck{"gpu_names", "kinds of GPU", Rule::equal, kFail, 0, "", nullptr, "use nodes of one kind"},
    FactCheck{"gpu_driver", "GPU driver", Rule::equal, kFail, 0, "", nullptr, "install one driver everywhere"},
    FactCheck{"gpu_memory_mib", "GPU memory in MiB", Rule::equal, kFail, 0, "", nullptr, "use nodes of one kind"},
    FactCheck{"gpu_max_clocks", "highest GPU clocks in MHz", Rule::equal, kWarn, 0, "", nullptr,
              "nvidia-smi -rgc frees locked clocks"},
    FactCheck{"gpu_pcie_width", "PCIe lanes of GPUs", Rule::equal, kFail, 0, "", nullptr, "reseat the card or drain the node"},
    FactCheck{"gpu_ecc_errors", "uncorrected ECC errors", Rule::absent, kFail, 0, "", nullptr,
              "reset the GPU; if they come back, replace it"},
    FactCheck{"gpu_throttled", "GPU clocks held down", Rule::absent, kFail, 0, "", nullptr,
              "check cooling and power of the node"},
    FactCheck{"dcgm_failed", "DCGM diagnostics failed", Rule::absent, kFail, 0, "", nullptr,
              "drain the node and run dcgmi diag again"},
    FactCheck{"infiniband_ports", "InfiniBand ports", Rule::equal, kFail, 0, "", nullptr,
              "look for the card with lspci and ibstat"},
    FactCheck{"infiniband_inactive", "InfiniBand ports that are not active", Rule::absent, kFail, 0, "", nullptr,
              "check cable and subnet manager"},
    FactCheck{"infiniband", "rates of InfiniBand ports", Rule::equal, kFail, 0, "", nullptr,
              "check cables: one trained at a lower rate"},
    FactCheck{"dev_infiniband", "/dev/infiniband is usable", Rule::is, kFail, 0, "yes", nullptr,
              "give the container --device=/dev/infiniband, or load ib_uverbs"},
    FactCheck{"topology", "GPUs, cards and PCI switches", Rule::equal, kWarn, 0, "", nullptr,
              "compare lspci -tv; a file of --topology is right for nodes like the first only"},
    FactCheck{"ofed", "OFED", Rule::equal, kWarn, 0, "", nullptr, "install one version everywhere"},
    FactCheck{"memlock", "locked memory (ulimit -l)", Rule::at_least, kFail, 64.0 * 1048576, "", "infiniband_ports",
              "set memlock unlimited in limits.conf, and LimitMEMLOCK=infinity for slurmd"},
    FactCheck{"nofile", "open files (ulimit -n)", Rule::at_least, kFail, 1024, "", nullptr, "raise nofile in limits.conf"},
    FactCheck{"shm_bytes", "/dev/shm", Rule::at_least, kFail, 60.0 * 1048576, "", nullptr,
              "give the container --shm-size or --ipc=host"},
    FactCheck{"shm_bytes", "/dev/shm", Rule::at_least, kWarn, kGiB, "", nullptr, "NCCL and MPI want 1 GiB or more"},
    FactCheck{"name_resolves", "own host name resolves", Rule::is, kFail, 0, "yes", nullptr, "add the host to DNS or /etc/hosts"},
    FactCheck{"clock_skew", "clock ahead of the first node's, in seconds", Rule::at_most, kWarn, 0.5, "", nullptr,
              "start chrony or ntpd"},
    FactCheck{"cores", "cores", Rule::equal, kFail, 0, "", nullptr, "use nodes of one kind, or look for offline cores"},
    FactCheck{"cpu", "CPU", Rule::equal, kWarn, 0, "", nullptr, "nodes of different kinds wait for the slowest"},
    FactCheck{"numa_nodes", "NUMA nodes", Rule::equal, kWarn, 0, "", nullptr, "compare the BIOS settings (NPS, SNC)"},
    FactCheck{"memory_gib", "memory in GiB", Rule::near, kFail, 0.05, "", nullptr, "look for a failed DIMM"},
    FactCheck{"governor", "CPU frequency governor", Rule::equal, kWarn, 0, "", nullptr, "cpupower frequency-set -g performance"},
    FactCheck{"kernel", "kernel", Rule::equal, kWarn, 0, "", nullptr, "boot one image everywhere"},
    FactCheck{"program", "build of trireme", Rule::equal, kFail, 0, "", nullptr, "start the same file everywhere"},
    FactCheck{"mpi", "MPI", Rule::equal, kWarn, 0, "", nullptr, "install one version everywhere"},
    FactCheck{"container_runtimes", "container runtimes", Rule::equal, kWarn, 0, "", nullptr, "install the same ones everywhere"},
};

constexpr const char* kNothing = "nothing";

std::string value_of(const NodeFacts& node, const char* fact) {
  const auto found = node.facts.find(fact);
  return found == node.facts.end() ? kNothing : found->second;
}

// The value that most nodes have; of two the one of the first node.
std::string usual_value(const std::vector<NodeFacts>& nodes, const char* fact) {
  std::string usual;
  int64_t most = 0;
  for (const NodeFacts& node : nodes) {
    const std::string value = value_of(node, fact);
    const auto count = std::ranges::count_if(nodes, [&](const NodeFacts& other) { return value_of(other, fact) == value; });
    if (count > most) most = count, usual = value;
  }
  return usual;
}

std::string number_text(const FactCheck& check, double number) {
  return std::string_view(check.fact).ends_with("_bytes") || std::string_view(check.fact) == "memlock"
             ? format_bytes(std::llround(number))
             : fmt::format("{:g}", number);
}

// What was expected instead of the value; nothing if the value is right.
std::optional<std::string> fault_of(const FactCheck& check, const std::string& value, const std::string& usual) {
  const double number = std::strtod(value.c_str(), nullptr), other = std::strtod(usual.c_str(), nullptr);
  switch (check.rule) {
    case Rule::equal:
      return value == usual ? std::nullopt : std::optional(usual);
    case Rule::near:
      return std::abs(number - other) <= check.number * std::abs(other) ? std::nullopt : std::optional(usual);
    case Rule::at_least:
      if (value == kNothing || value == "unlimited" || number >= check.number) return std::nullopt;
      return "at least " + number_text(check, check.number);
    case Rule::at_most:
      return std::abs(number) <= check.number ? std::nullopt : std::optional("at most " + number_text(check, check.number));
    case Rule::absent:
      return value == kNothing ? std::nullopt : std::optional("none");
    case Rule::is:
      return value == kNothing || value == check.text ? std::nullopt : std::optional<std::string>(check.text);
  }
  return std::nullopt;
}

std::string seen_text(const FactCheck& check, const std::string& value) {
  const bool is_number = check.rule == Rule::at_least || check.rule == Rule::at_most;
  return is_number ? number_text(check, std::strtod(value.c_str(), nullptr)) : value;
}

}  // namespace

std::vector<Finding> check_inventory(const std::vector<NodeFacts>& nodes) {
  std::vector<Finding> findings;
  for (const FactCheck& check : kFactChecks) {
    const std::string usual = usual_value(nodes, check.fact);
    for (const NodeFacts& node : nodes) {
      if (check.only_if != nullptr && (value_of(node, check.only_if) == kNothing || value_of(node, check.only_if) == "0"))
        continue;
      const std::string value = value_of(node, check.fact);
      const std::optional<std::string> expected = fault_of(check, value, usual);
      if (!expected) continue;
      const bool is_said = std::ranges::any_of(
          findings, [&](const Finding& other) { return other.node == node.node && other.check == check.fact; });
      if (!is_said)
        findings.push_back({check.kind, check.fact, node.node, check.what, seen_text(check, value), *expected, check.advice});
    }
  }
  return findings;
}

}  // namespace trireme
