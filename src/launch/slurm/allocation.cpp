#include "launch/slurm/allocation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "launch/slurm/site.h"
#include "launch/slurm/slurm_command.h"
#include "launch/slurm/slurm_text.h"
#include "launch/slurm/srun_messages.h"

namespace trireme {

Allocation::Allocation(std::string job, const std::string& nodes) : job_(std::move(job)), nodes_(expand_node_list(nodes)) {}

std::vector<std::string> Allocation::choose(int64_t count) const {
  const size_t some = std::min(nodes_.size(), static_cast<size_t>(std::max<int64_t>(count, 0)));
  return {nodes_.begin(), nodes_.begin() + static_cast<std::ptrdiff_t>(some)};
}

std::vector<std::string> Allocation::spares(const std::vector<std::string>& used) const {
  std::vector<std::string> left;
  for (const std::string& node : nodes_)
    if (std::ranges::find(used, node) == used.end()) left.push_back(node);
  return left;
}

bool Allocation::drop(const std::string& node) { return std::erase(nodes_, node) > 0; }

std::vector<std::string> Allocation::find_lost() {
  std::vector<std::string> lost = ask_scheduler();
  const std::vector<std::string> silent = ask_nodes();
  lost.insert(lost.end(), silent.begin(), silent.end());
  return lost;
}

// Slurm takes nodes that are down out of the allocation.
std::vector<std::string> Allocation::ask_scheduler() {
  std::vector<std::string> lost;
  const auto drop_all = [&](const std::vector<std::string>& names, const auto& is_lost, const auto& why) {
    for (const std::string& name : names)
      if (is_lost(name) && drop(name)) lost.push_back(fmt::format("{} ({})", name, why(name)));
  };
  const std::vector<SlurmObject> jobs = parse_slurm_objects(run_slurm({"scontrol", "--oneliner", "show", "job", job_}).output);
  if (!jobs.empty()) {
    const std::vector<std::string> now = expand_node_list(slurm_value(jobs.front(), "NodeList"));
    const auto is_gone = [&](const std::string& name) { return std::ranges::find(now, name) == now.end(); };
    if (!now.empty()) drop_all(std::vector(nodes_), is_gone, [](const std::string&) { return "Slurm took it out of the job"; });
  }
  if (nodes_.empty()) return lost;
  const std::string list = fmt::format("{}", fmt::join(nodes_, ","));
  const SlurmSite site = parse_site({.nodes = run_slurm({"scontrol", "--oneliner", "show", "node", list}).output});
  for (const SlurmNode& node : site.nodes)
    if (!is_usable(node) && drop(node.name)) lost.push_back(fmt::format("{} ({})", node.name, node.state));
  return lost;
}

std::vector<std::string> Allocation::ask_nodes() {
  constexpr int64_t kProbeSeconds = 40;  // several of Slurm's attempts to connect
  std::vector<std::string> lost;
  if (nodes_.size() < 2) return lost;  // this process runs on the only one
  const std::string count = std::to_string(nodes_.size());
  const CommandOutput probe = run_slurm({"srun", "--overlap", "--mpi=none", "--nodes=" + count, "--ntasks=" + count,
                                         "--ntasks-per-node=1", fmt::format("--nodelist={}", fmt::join(nodes_, ",")), "true"},
                                        kProbeSeconds);
  for (const std::string& node : unreachable_nodes(probe.errors))
    if (drop(node)) lost.push_back(fmt::format("{} (cannot be reached)", node));
  return lost;
}

std::vector<std::string> unreachable_nodes(const std::string& srun_errors) {
  SrunMessages messages;
  std::istringstream lines(srun_errors);
  for (std::string line; std::getline(lines, line);) messages.note({std::nullopt, line});
  return messages.lost_nodes();
}

}  // namespace trireme
