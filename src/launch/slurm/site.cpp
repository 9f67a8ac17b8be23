#include "launch/slurm/site.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/slurm/slurm_command.h"
#include "launch/slurm/slurm_text.h"

namespace trireme {
namespace {

std::vector<std::string> names_unless_all(const SlurmObject& object, const std::string& key) {
  const std::string value = slurm_value(object, key);
  return value == "ALL" ? std::vector<std::string>() : split_at(value, ',');
}

SlurmPartition partition_of(const SlurmObject& object) {
  return {.name = slurm_value(object, "PartitionName"),
          .state = slurm_value(object, "State"),
          .is_default = slurm_value(object, "Default") == "YES",
          .nodes = slurm_number(object, "TotalNodes", 0),
          .most_nodes = slurm_number(object, "MaxNodes", -1),
          .least_nodes = slurm_number(object, "MinNodes", 0),
          .most_seconds = parse_slurm_seconds(slurm_value(object, "MaxTime")).value_or(-1),
          .default_seconds = parse_slurm_seconds(slurm_value(object, "DefaultTime")).value_or(-1),
          .accounts = names_unless_all(object, "AllowAccounts"),
          .not_accounts = names_unless_all(object, "DenyAccounts"),
          .qos = names_unless_all(object, "AllowQos")};
}

SlurmNode node_of(const SlurmObject& object) {
  return {.name = slurm_value(object, "NodeName"),
          .partitions = split_at(slurm_value(object, "Partitions"), ','),
          .cpus = slurm_number(object, "CPUEfctv", slurm_number(object, "CPUTot", 0)),
          .gpus = gpus_of_gres(slurm_value(object, "Gres")),
          .state = slurm_value(object, "State"),
          .reason = slurm_value(object, "Reason")};
}

// Words such as "pmix" and "pmix_v4", each after "srun:" or a tab.
bool lists_pmix(const std::string& text) {
  std::string plain = text;
  std::ranges::replace_if(
      plain, [](char c) { return c == '\n' || c == '\t' || c == ','; }, ' ');
  const std::vector<std::string> words = split_at(plain, ' ');
  return std::ranges::any_of(words, [](const std::string& word) { return word == "pmix" || word.starts_with("pmix_v"); });
}

std::string why_unknown(const CommandOutput& result) {
  return fmt::format("Slurm does not answer: {}; check SLURM_CONF and scontrol ping", complaint_of(result));
}

}  // namespace

bool is_usable(const SlurmNode& node) {
  for (const std::string& word : split_at(node.state, '+')) {
    std::string plain = word;
    while (!plain.empty() && std::string_view("*~#!%$@^-").find(plain.back()) != std::string_view::npos) plain.pop_back();
    for (const char* bad : {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "NOT_RESPONDING", "MAINT",
                            "FUTURE", "UNKNOWN", "NO_RESPOND"})
      if (plain == bad) return false;
    if (word.ends_with('*')) return false;
  }
  return !node.state.empty();
}

SlurmSite parse_site(const SlurmAnswers& answers) {
  const SlurmObject config = parse_slurm_config(answers.config);
  SlurmSite site;
  site.cluster = slurm_value(config, "ClusterName");
  site.version = slurm_value(config, "SLURM_VERSION");
  site.has_requeue = slurm_value(config, "JobRequeue") != "0";
  site.most_array_tasks = slurm_number(config, "MaxArraySize", -1);
  for (const SlurmObject& object : parse_slurm_objects(answers.partitions))
    if (object.contains("PartitionName")) site.partitions.push_back(partition_of(object));
  for (const SlurmObject& object : parse_slurm_objects(answers.nodes))
    if (object.contains("NodeName")) site.nodes.push_back(node_of(object));
  site.has_pmix = lists_pmix(answers.mpi_list);
  site.has_pyxis = answers.srun_help.find("--container-image") != std::string::npos;
  site.has_container_env = answers.srun_help.find("--container-env") != std::string::npos;
  return site;
}

SlurmSite look_at_site() {
  SlurmSite site;
  for (const char* program : {"sbatch", "srun", "scontrol"})
    if (find_program(program).empty()) {
      site.unknown = fmt::format("{} is not on PATH; start this on a login node of a Slurm cluster", program);
      return site;
    }
  // Every other question would wait as long, so the first one that gets no answer is the last.
  const CommandOutput config = run_slurm({"scontrol", "show", "config"});
  if (config.status != 0) {
    site.unknown = why_unknown(config);
    return site;
  }
  const CommandOutput partitions = run_slurm({"scontrol", "--oneliner", "show", "partition"});
  const CommandOutput nodes = run_slurm({"scontrol", "--oneliner", "show", "node"});
  for (const CommandOutput* result : {&partitions, &nodes})
    if (result->status != 0) {
      site.unknown = why_unknown(*result);
      return site;
    }
  const CommandOutput mpi = run_slurm({"srun", "--mpi=list"}), help = run_slurm({"srun", "--help"});
  return parse_site({.config = config.output,
                     .partitions = partitions.output,
                     .nodes = nodes.output,
                     .mpi_list = mpi.output + mpi.errors,
                     .srun_help = help.output + help.errors});
}

}  // namespace trireme
