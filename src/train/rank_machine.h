// What one rank of a run computes on, and the groups that go with it: host memory over MPI or TCP, GPUs over NCCL, or one GPU
// that several ranks share, staged through the host.
#pragma once

#include <memory>

#include "comm/device_choice.h"
#include "comm/mesh.h"
#include "comm/nccl_session.h"
#include "comm/staged_backend.h"
#include "config/settings.h"
#include "train/backend_choice.h"

namespace trireme {

// `streams`: those that communicate on host memory, for backends that compute there.
std::unique_ptr<Backend> make_backend(const TrainerSettings& settings, int device = 0, HostStreams* streams = nullptr);

bool may_use_gpu(BackendKind asked);  // whether this process could: where a GPU is in view

class RankMachine {
 public:
  // All ranks make one together. With trainer.backend=auto they take GPUs if there is one for each of them.
  RankMachine(World& world, TrainerSettings settings);

  Backend& backend() const { return staged_ ? *staged_ : *device_; }
  Mesh connect(const MeshPlace& place);  // all ranks together; the mesh must be destroyed before this object
  int ranks_per_device() const { return choice_.sharing; }
  const BackendChoice& chosen() const { return chosen_; }
  std::string communication_text() const;  // how device memory travels; empty where there is nothing to say

 private:
  World& world_;
  BackendChoice chosen_;
  DeviceChoice choice_;
  std::unique_ptr<Backend> device_;
  std::unique_ptr<StagedBackend> staged_;
  std::unique_ptr<NcclSession> nccl_;
};

}  // namespace trireme
