#include "comm/rendezvous.h"

#include <fmt/format.h>

#include <charconv>
#include <span>
#include <string_view>

#include "base/crc32c.h"
#include "base/error.h"

namespace trireme {
namespace {

constexpr int kUsualPort = 29500, kLastPort = 65535;

bool has(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value != nullptr && *value != '\0';
}

int number(const Environment& environment, const char* name) {
  const std::string_view text = environment(name) == nullptr ? "" : environment(name);
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw UserError("{}=\"{}\" in the environment is not a number; it says how the ranks of this job are counted", name, text);
  return value;
}

void require_also(const Environment& environment, const char* name, const char* missing, const char* meaning) {
  if (!has(environment, missing))
    throw UserError("{} is in the environment and {} is not; set it to {}, or unset {} to train alone", name, missing, meaning,
                    name);
}

std::string address_of(const Environment& environment, const char* beside) {
  require_also(environment, beside, "MASTER_ADDR", "the machine of rank 0");
  return environment("MASTER_ADDR");
}

int given_port(const Environment& environment) {
  if (!has(environment, "MASTER_PORT")) return kUsualPort;
  const int port = number(environment, "MASTER_PORT");
  if (port < 1 || port > kLastPort)
    throw UserError("MASTER_PORT={} in the environment is not a port; use 1 to {}", port, kLastPort);
  return port;
}

// Candidate ports derived from the name of the job, for launchers that give none. They are below Linux's ephemeral ports. Another
// job or program may use some of them.
std::vector<int> ports_of(const std::string& job) {
  constexpr int kFirst = 20000, kPorts = 10000, kTried = 16, kStride = 617;
  const auto start = static_cast<int>(crc32c(std::as_bytes(std::span(job))) % kPorts);
  std::vector<int> ports;
  for (int i = 0; i < kTried; ++i) ports.push_back(kFirst + (start + i * kStride) % kPorts);
  return ports;
}

std::string text_of(const Environment& environment, const char* name) { return has(environment, name) ? environment(name) : ""; }

// The job step of a process that srun started; empty for a process that only runs in an allocation.
std::string slurm_step(const Environment& environment) {
  if (!has(environment, "SLURM_PROCID") || !has(environment, "SLURM_STEP_ID")) return "";
  return fmt::format("slurm {}.{}.{}", text_of(environment, "SLURM_JOB_ID"), text_of(environment, "SLURM_STEP_ID"),
                     text_of(environment, "SLURM_RESTART_COUNT"));
}

std::string torchrun_job(const Environment& environment) {
  if (!has(environment, "TORCHELASTIC_RUN_ID")) return "";
  return fmt::format("torchrun {} {}", environment("TORCHELASTIC_RUN_ID"), text_of(environment, "MASTER_PORT"));
}

// Fills in the ports and the job's name. torchrun's agent already listens at MASTER_PORT, so that port is not used.
Rendezvous placed(Rendezvous found, const Environment& environment) {
  const std::string torchrun = torchrun_job(environment), step = slurm_step(environment);
  const std::string launched = !torchrun.empty() ? torchrun : step;
  const bool is_port_given = torchrun.empty() && (has(environment, "MASTER_PORT") || step.empty());
  const int port = given_port(environment);
  found.ports = is_port_given ? std::vector<int>{port} : ports_of(launched);
  found.job = !launched.empty() ? launched : fmt::format("port {}", port);
  if (has(environment, "TRIREME_JOB_ID")) found.job = fmt::format("job {}", environment("TRIREME_JOB_ID"));
  found.reach = reach_of(environment);
  if (found.address == "localhost" || found.address.starts_with("127.")) found.reach = Reach::machine;
  return found;
}

std::optional<Rendezvous> by_rank(const Environment& environment) {
  const bool has_rank = has(environment, "RANK"), has_size = has(environment, "WORLD_SIZE");
  if (has_rank && !has_size && has(environment, "MASTER_ADDR"))
    require_also(environment, "RANK", "WORLD_SIZE", "the number of ranks");
  if (!has_rank || !has_size || number(environment, "WORLD_SIZE") == 1) return std::nullopt;
  return Rendezvous{.rank = number(environment, "RANK"),
                    .size = number(environment, "WORLD_SIZE"),
                    .address = address_of(environment, "WORLD_SIZE"),
                    .ports = {},
                    .job = {}};
}

// Pods with LOCAL_RANK run GPUS_PER_NODE ranks each.
std::optional<Rendezvous> by_completion_index(const Environment& environment) {
  if (!has(environment, "JOB_COMPLETION_INDEX")) return std::nullopt;
  const bool has_nodes = has(environment, "NNODES"), has_size = has(environment, "WORLD_SIZE");
  if (!has_nodes && !has_size) {
    if (has(environment, "MASTER_ADDR")) require_also(environment, "JOB_COMPLETION_INDEX", "NNODES", "the number of pods");
    return std::nullopt;
  }
  Rendezvous found{.rank = number(environment, "JOB_COMPLETION_INDEX"), .address = {}, .ports = {}, .job = {}};
  if (has(environment, "LOCAL_RANK")) {
    require_also(environment, "LOCAL_RANK", "GPUS_PER_NODE", "the number of ranks per pod");
    const int ranks = number(environment, "GPUS_PER_NODE"), local_rank = number(environment, "LOCAL_RANK");
    if (local_rank >= ranks)
      throw UserError("LOCAL_RANK={} and GPUS_PER_NODE={} in the environment contradict each other; ranks are counted from 0",
                      local_rank, ranks);
    found.rank = found.rank * ranks + local_rank;
    found.size = has_nodes ? number(environment, "NNODES") * ranks : number(environment, "WORLD_SIZE");
    if (has_size && found.size != number(environment, "WORLD_SIZE"))
      throw UserError("WORLD_SIZE={} in the environment is not NNODES={} times GPUS_PER_NODE={}; unset it, or set it to {}",
                      number(environment, "WORLD_SIZE"), number(environment, "NNODES"), ranks, found.size);
  } else {
    found.size = number(environment, has_nodes ? "NNODES" : "WORLD_SIZE");
  }
  if (found.size == 1) return std::nullopt;
  found.address = address_of(environment, "JOB_COMPLETION_INDEX");
  return found;
}

// A batch script has SLURM_PROCID too but is a single process. Only srun sets the number of tasks of its step.
std::optional<Rendezvous> by_slurm(const Environment& environment) {
  if (!has(environment, "SLURM_PROCID") || !has(environment, "SLURM_STEP_NUM_TASKS")) return std::nullopt;
  if (number(environment, "SLURM_STEP_NUM_TASKS") == 1) return std::nullopt;
  const bool is_given = has(environment, "MASTER_ADDR") || !has(environment, "SLURM_STEP_NODELIST");
  return Rendezvous{
      .rank = number(environment, "SLURM_PROCID"),
      .size = number(environment, "SLURM_STEP_NUM_TASKS"),
      .address = is_given ? address_of(environment, "SLURM_PROCID") : first_of_node_list(environment("SLURM_STEP_NODELIST")),
      .ports = {},
      .job = {}};
}

}  // namespace

Reach reach_of(const Environment& environment) {
  const auto are_equal = [&](const char* here, const char* all) {
    return has(environment, here) && text_of(environment, here) == text_of(environment, all);
  };
  const bool is_one_machine = are_equal("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE") ||
                              are_equal("LOCAL_WORLD_SIZE", "WORLD_SIZE") ||
                              (has(environment, "SLURM_PROCID") && text_of(environment, "SLURM_STEP_NUM_NODES") == "1");
  return is_one_machine ? Reach::machine : Reach::network;
}

std::string first_of_node_list(const std::string& list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t end = list.find_first_of("-,]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end == std::string::npos ? end : end - bracket - 1);
}

std::optional<Rendezvous> find_rendezvous(const Environment& environment) {
  for (const auto& way : {by_rank, by_completion_index, by_slurm})
    if (std::optional<Rendezvous> found = way(environment)) {
      if (found->rank >= found->size)
        throw UserError("the environment says that this is rank {} of {}; ranks are counted from 0", found->rank, found->size);
      return placed(std::move(*found), environment);
    }
  const bool is_numbered = has(environment, "JOB_COMPLETION_INDEX") || has(environment, "SLURM_PROCID");
  if (!is_numbered && has(environment, "WORLD_SIZE") && has(environment, "MASTER_ADDR") && number(environment, "WORLD_SIZE") > 1)
    require_also(environment, "WORLD_SIZE", "RANK", "the number of this process, counted from 0");
  return std::nullopt;
}

}  // namespace trireme
