// Finds silent corruption: data parallel ranks hold the same weights, so their checksums must be equal.
#pragma once

#include <string>
#include <vector>

#include "comm/mesh.h"
#include "train/engine.h"

namespace trireme {

// CRC-32C of the weights of this rank that its replicas hold too, padding included: all but those of sharded blocks. No step may
// be in flight.
uint32_t weights_checksum(const Engine& engine);

// Whose checksum is not that of most of its replicas; where no most is, all that differ. `checksums`: by rank.
struct ReplicaDifference {
  std::vector<int> ranks;     // that differ
  std::vector<int> replicas;  // all ranks with the same weights
  bool is_majority = true;    // most of the replicas agree, so `ranks` are damaged
};
std::vector<ReplicaDifference> replica_differences(const MeshShape& shape, const std::vector<uint32_t>& checksums);

}  // namespace trireme
