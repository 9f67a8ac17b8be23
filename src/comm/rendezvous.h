// Where ranks meet that MPI did not start: the environment of the process says which rank it is, how many there are, and at which
// address rank 0 waits for the others.
//
//   torchrun, Kubeflow   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//   Kubernetes           JOB_COMPLETION_INDEX, NNODES (or WORLD_SIZE), MASTER_ADDR, MASTER_PORT; with LOCAL_RANK and
//   GPUS_PER_NODE
//                        several ranks a pod
//   Slurm's srun         SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST, SLURM_JOB_ID
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace trireme {

struct Rendezvous {
  int rank = 0, size = 1;
  std::string address;  // of rank 0
  int port = 0;
  bool operator==(const Rendezvous&) const = default;
};

using Environment = std::function<const char*(const char* name)>;  // null: not set

// Nothing if the process was started alone; a UserError if only a part of it is there.
std::optional<Rendezvous> find_rendezvous(const Environment& environment);

// The first machine of Slurm's notation: "node07" of "node[07-12,20],login1".
std::string first_of_node_list(const std::string& list);

}  // namespace trireme
