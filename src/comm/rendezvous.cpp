#include "comm/rendezvous.h"

#include <charconv>
#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

constexpr int kUsualPort = 29500;

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

std::string address_of(const Environment& environment, const char* beside) {
  if (!has(environment, "MASTER_ADDR"))
    throw UserError(
        "{} is in the environment and MASTER_ADDR is not; set it to the machine of rank 0, or unset {} to train alone", beside,
        beside);
  return environment("MASTER_ADDR");
}

int port_of(const Environment& environment, int otherwise) {
  return has(environment, "MASTER_PORT") ? number(environment, "MASTER_PORT") : otherwise;
}

std::optional<Rendezvous> by_rank(const Environment& environment) {
  if (!has(environment, "RANK") || !has(environment, "WORLD_SIZE")) return std::nullopt;
  if (number(environment, "WORLD_SIZE") == 1) return std::nullopt;
  return Rendezvous{.rank = number(environment, "RANK"),
                    .size = number(environment, "WORLD_SIZE"),
                    .address = address_of(environment, "WORLD_SIZE"),
                    .port = port_of(environment, kUsualPort)};
}

std::optional<Rendezvous> by_completion_index(const Environment& environment) {
  if (!has(environment, "JOB_COMPLETION_INDEX")) return std::nullopt;
  const bool several = has(environment, "LOCAL_RANK") && has(environment, "GPUS_PER_NODE");
  const char* size_name = several || !has(environment, "NNODES") ? "WORLD_SIZE" : "NNODES";
  if (!has(environment, size_name) || number(environment, size_name) == 1) return std::nullopt;
  const int index = number(environment, "JOB_COMPLETION_INDEX");
  return Rendezvous{.rank = several ? index * number(environment, "GPUS_PER_NODE") + number(environment, "LOCAL_RANK") : index,
                    .size = number(environment, size_name),
                    .address = address_of(environment, "JOB_COMPLETION_INDEX"),
                    .port = port_of(environment, kUsualPort)};
}

// A batch script has SLURM_PROCID too and is alone; only srun says how many tasks its step has.
std::optional<Rendezvous> by_slurm(const Environment& environment) {
  if (!has(environment, "SLURM_PROCID") || !has(environment, "SLURM_STEP_NUM_TASKS")) return std::nullopt;
  if (number(environment, "SLURM_STEP_NUM_TASKS") == 1) return std::nullopt;
  const bool is_given = has(environment, "MASTER_ADDR") || !has(environment, "SLURM_STEP_NODELIST");
  constexpr int kFirstPort = 20000, kPorts = 10000;  // two jobs that share a machine rarely have the same
  const int job = has(environment, "SLURM_JOB_ID") ? number(environment, "SLURM_JOB_ID") : 0;
  return Rendezvous{
      .rank = number(environment, "SLURM_PROCID"),
      .size = number(environment, "SLURM_STEP_NUM_TASKS"),
      .address = is_given ? address_of(environment, "SLURM_PROCID") : first_of_node_list(environment("SLURM_STEP_NODELIST")),
      .port = port_of(environment, kFirstPort + job % kPorts)};
}

}  // namespace

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
      return found;
    }
  return std::nullopt;
}

}  // namespace trireme
