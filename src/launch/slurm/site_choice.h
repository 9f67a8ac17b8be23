// How a job runs on a site: what the site decides, each with its reason, and the requests that the site cannot fulfil.
#pragma once

#include <string>
#include <vector>

#include "launch/launch_target.h"
#include "launch/slurm/site.h"

namespace trireme {

struct SlurmRun {
  std::string mpi = "none";   // srun --mpi
  std::string image;          // as pyxis reads it
  int64_t gpus_per_node = 0;  // to ask for; 0: none
  int64_t cpus_per_task = 0;  // 0: Slurm's default
  int64_t signal_before = 0;  // seconds before the time limit; 0: no signal
  bool exclusive = false, requeue = true;
  bool overrides_image_environment = false;  // srun --container-env
  std::vector<LaunchChoice> choices;
};

// UserError if the site cannot run the job: no such partition, too few nodes, GPUs or CPUs, too long a time, no pyxis, no PMIx.
// Of a site that is unknown nothing is checked, and the choices say so.
SlurmRun choose_run(const SlurmSite& site, const LaunchOptions& options, const Job& job);

// An image as pyxis takes it: the path of a squashfs file, or [USER@][REGISTRY#]NAME[:TAG]. UserError for a path that does not
// exist and for forms of other runtimes.
std::string pyxis_image(const std::string& image, std::vector<LaunchChoice>& choices);

}  // namespace trireme
