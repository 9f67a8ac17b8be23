// Loading: fills tensors of any layout from a checkpoint of any layout, and checks every byte it reads.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "train/checkpoint/folder.h"
#include "train/checkpoint/slice.h"

namespace trireme {

// Fills the tensors from whatever stored slices hold their elements; f32 and bf16 are converted into one another.
// CheckpointMismatch, before anything is read, names a tensor or region that the checkpoint does not have or has with another
// shape or dtype; a Failure names a shard and tensor that is damaged, and leaves the tensors undefined.
void load_checkpoint(const StoredCheckpoint& checkpoint, std::span<const CheckpointTensor> tensors);

// Loads the newest checkpoint that can be read, falling back past damaged ones, and says which were skipped, as find_latest does.
// `wanted` is asked for each checkpoint tried which tensors to fill; it may refuse one by throwing.
NewestCheckpoint load_newest(const std::filesystem::path& folder,
                             const std::function<std::vector<CheckpointTensor>(const CheckpointManifest&)>& wanted,
                             Control* ranks = nullptr);

}  // namespace trireme
