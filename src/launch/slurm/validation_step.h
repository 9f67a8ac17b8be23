// trireme validate on the nodes of a Slurm site: one srun that starts a rank per GPU, or per node where there are none.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/launch_options.h"
#include "launch/slurm/site.h"
#include "launch/slurm/site_choice.h"

namespace trireme {

struct SlurmValidation {
  LaunchOptions options;            // partition, account, nodelist, exclude, reservation, time, and nodes: 0 all usable ones
  int64_t ranks_per_node = 0;       // 0: the GPUs of a node, or 1
  std::vector<std::string> checks;  // what follows `trireme validate` on the nodes
  std::filesystem::path folder;     // of logs and results
};

struct SlurmValidationPlan {
  std::vector<std::string> words;  // srun ...
  std::vector<LaunchChoice> choices;
};

// UserError if the site cannot run it.
SlurmValidationPlan plan_validation(const SlurmValidation& request, const SlurmSite& site);

// Runs the plan: what rank 0 prints goes to stdout, and what each rank prints to a log in the folder. Returns the verdict's
// status; kFailed if Slurm starts no rank.
int run_validation_step(const SlurmValidation& request, const SlurmValidationPlan& plan);

}  // namespace trireme
