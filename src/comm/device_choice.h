// Which GPU a rank takes, and how the ranks communicate then.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// What a rank finds on its machine.
struct DeviceOffer {
  std::string host;
  std::string visible;  // CUDA_VISIBLE_DEVICES: ranks with the same have the same GPUs in view
  int devices = 0;      // in view
};

enum class DeviceGroups : uint8_t {
  none,    // a rank has no GPU
  staged,  // ranks share a GPU: NCCL cannot, so device memory goes over the host's transport
  nccl,    // every rank has a GPU of its own
};

struct DeviceChoice {
  DeviceGroups groups = DeviceGroups::none;
  int device = 0;   // this rank's, as CUDA numbers those in view
  int sharing = 1;  // ranks on it
};

// `offers` by rank. Ranks of a machine take the GPUs in view in turn.
DeviceChoice choose_device(const std::vector<DeviceOffer>& offers, int rank);

}  // namespace trireme
