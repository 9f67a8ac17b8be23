// What a Slurm site has: partitions, nodes, PMIx, pyxis. Read from the output of Slurm's commands; the parser needs no Slurm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct SlurmNode {
  std::string name;
  std::vector<std::string> partitions;
  int64_t cpus = 0, gpus = 0;
  std::string state;   // "IDLE", "DOWN+NOT_RESPONDING", "IDLE+DRAIN", "IDLE+CLOUD+POWERED_DOWN"
  std::string reason;  // why it is down or drained
};

// Whether Slurm gives the node to jobs. Powered down nodes count: Slurm starts them.
bool is_usable(const SlurmNode& node);

struct SlurmPartition {
  std::string name, state;  // UP, DOWN, DRAIN or INACTIVE
  bool is_default = false;
  int64_t nodes = 0;
  int64_t most_nodes = -1, least_nodes = 0;              // of one job; -1: no limit
  int64_t most_seconds = -1;                             // the time limit; -1: none
  int64_t default_seconds = -1;                          // of jobs that ask for none
  std::vector<std::string> accounts, not_accounts, qos;  // empty: all, none, all
};

struct SlurmSite {
  std::string unknown;  // why nothing is known of it: "sbatch is not on PATH"; empty: the scheduler answered
  std::string cluster, version;
  std::vector<SlurmPartition> partitions;
  std::vector<SlurmNode> nodes;
  bool has_pmix = false;
  bool has_pyxis = false, has_container_env = false;  // srun --container-image, --container-env
  bool has_requeue = true;
  int64_t most_array_tasks = -1;
};

// The output of the commands that describe a site.
struct SlurmAnswers {
  std::string config, partitions, nodes;  // scontrol show ..., the last two with --oneliner
  std::string mpi_list, srun_help;
};
SlurmSite parse_site(const SlurmAnswers& answers);

// Asks the scheduler. Takes a few seconds at most, also if it does not answer.
SlurmSite look_at_site();

}  // namespace trireme
