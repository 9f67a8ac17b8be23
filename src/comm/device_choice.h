// Chooses the GPU of each rank and how the ranks communicate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// What a rank finds on its machine.
struct DeviceOffer {
  std::string host;
  std::string visible;  // CUDA_VISIBLE_DEVICES: ranks with the same value see the same GPUs
  int devices = 0;      // how many GPUs are visible
};

enum class DeviceGroups : uint8_t {
  none,    // some rank has no GPU
  staged,  // ranks share a GPU, which NCCL does not support: device memory goes over the host's transport
  nccl,    // every rank has a GPU of its own
};

struct DeviceChoice {
  DeviceGroups groups = DeviceGroups::none;
  int device = 0;   // this rank's, as CUDA numbers the visible ones
  int sharing = 1;  // ranks on this GPU
};

// `offers` is indexed by rank. Ranks of one machine take its visible GPUs round-robin.
DeviceChoice choose_device(const std::vector<DeviceOffer>& offers, int rank);

}  // namespace trireme
