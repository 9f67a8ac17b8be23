// Where ranks meet that MPI did not start: the environment of the process says which rank it is, how many there are, and at which
// address rank 0 waits for the others.
//
//   torchrun, Kubeflow   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; torchrun's agent listens at MASTER_PORT itself and names the
//                        job, TORCHELASTIC_RUN_ID, from which another port follows
//   Kubernetes           JOB_COMPLETION_INDEX, NNODES (or WORLD_SIZE), MASTER_ADDR, MASTER_PORT; with LOCAL_RANK and
//                        GPUS_PER_NODE several ranks per pod
//   Slurm's srun         SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST; the port follows from job and step
//
// What tells one job from another: TRIREME_JOB_ID if it is set, torchrun's run, Slurm's job and step, else the port.
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
  std::vector<int> ports;  // rank 0 takes the first that is free, the others look for it at each of them
  std::string job;         // what the ranks of this job have in common, and no other job has
  Reach reach = Reach::network;
  bool operator==(const Rendezvous&) const = default;
};

using Environment = std::function<const char*(const char* name)>;  // null: not set

// Nothing if the process was started alone; a UserError if only a part of it is there.
std::optional<Rendezvous> find_rendezvous(const Environment& environment);

// Whether the launcher says that all ranks are on this machine.
Reach reach_of(const Environment& environment);

// The first machine of Slurm's notation: "node07" of "node[07-12,20],login1".
std::string first_of_node_list(const std::string& list);

}  // namespace trireme
