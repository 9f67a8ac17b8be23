// How ranks that MPI did not start find each other. The environment gives the rank, the number of ranks and the address of rank
// 0.
//
//   torchrun, Kubeflow   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. torchrun's agent listens at MASTER_PORT itself and sets
//                        TORCHELASTIC_RUN_ID, from which another port is derived.
//   Kubernetes           JOB_COMPLETION_INDEX, NNODES (or WORLD_SIZE), MASTER_ADDR, MASTER_PORT; with LOCAL_RANK and
//                        GPUS_PER_NODE several ranks per pod
//   Slurm's srun         SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST; the port is derived from job and step
//
// The name of a job is TRIREME_JOB_ID if set, else torchrun's run, else Slurm's job and step, else the port.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/tcp.h"

namespace trireme {

struct Rendezvous {
  int rank = 0, size = 1;
  std::string address;     // of rank 0
  std::vector<int> ports;  // rank 0 listens at the first free one, the others try all of them
  std::string job;         // a name that only the ranks of this job have
  Reach reach = Reach::network;
  bool operator==(const Rendezvous&) const = default;
};

using Environment = std::function<const char*(const char* name)>;  // null: not set

// Returns nullopt if the process was started alone. Throws a UserError if variables are missing.
std::optional<Rendezvous> find_rendezvous(const Environment& environment);

// Whether the launcher says that all ranks are on this machine.
Reach reach_of(const Environment& environment);

// The first host of Slurm's notation: "node07" of "node[07-12,20],login1".
std::string first_of_node_list(const std::string& list);

}  // namespace trireme
