// manifest.json: what a checkpoint holds. It is written last, so a checkpoint with a manifest is a whole one.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/slice.h"

namespace trireme {

inline constexpr int64_t kCheckpointVersion = 1;
inline constexpr const char* kManifestName = "manifest.json";
// In the state of a checkpoint that holds parameters and no optimizer state.
inline constexpr const char* kWeightsOnly = "weights_only";

// One tensor of a shard. Its dtype and place are in the shard's header as well and must agree.
struct StoredTensor {
  std::string name;  // of the global tensor
  std::string key;   // in the shard: the name, and a number where the shard holds several slices of the tensor
  DType dtype = DType::f32;
  TensorSlice slice;
  uint32_t checksum = 0;  // crc32c of its bytes
};

// The file that one rank wrote.
struct StoredShard {
  std::string file;
  int64_t bytes = 0;
  uint32_t header_checksum = 0;  // crc32c of everything before the data
  std::vector<StoredTensor> tensors;
};

// What the trainer says about the moment it saves.
struct CheckpointInfo {
  int64_t step = 0;
  int64_t consumed_samples = 0;
  std::optional<double> validation_loss = {};
  std::string commit = {};    // of the binary
  std::string settings = {};  // the resolved recipe, as YAML text
  nlohmann::json state = {};  // whatever else the trainer wants back
};

struct CheckpointManifest {
  CheckpointInfo info;
  std::string created;  // 2026-01-31T12:00:00Z
  std::vector<StoredShard> shards;
};

// What the ranks of a run tell the one that writes the manifest.
std::string write_shard_entry(const StoredShard& shard);
StoredShard parse_shard_entry(const std::string& text, const std::string& where);

// The text carries its own checksum, over everything else in it; every version of the format keeps that rule, so that damage
// and a newer version can be told apart.
std::string write_manifest(const CheckpointManifest& manifest);

// Failure, beginning with `where`, for a damaged manifest; UserError for one of a newer version.
CheckpointManifest parse_manifest(const std::string& text, const std::string& where);

}  // namespace trireme
