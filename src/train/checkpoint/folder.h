// The folder that holds a run's checkpoints: one folder per step, step-00000100, and while one is being written or removed a
// temporary one, step-00000100.writing or step-00000100.removing.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint/manifest.h"

namespace trireme {

class Control;

std::string checkpoint_name(int64_t step);                                   // "step-00000100"
std::optional<int64_t> step_of(const std::string& name);                     // of a checkpoint's folder; nothing for other names
std::vector<int64_t> checkpoint_steps(const std::filesystem::path& folder);  // rising; a folder that is not there has none

struct StoredCheckpoint {
  std::filesystem::path folder;
  CheckpointManifest manifest;
};

// Reads the manifest and checks that every shard has its size. A Failure says what is damaged. A folder of one machine need not
// have the shards of others.
enum class ShardsExpected : uint8_t { all, of_this_machine };
StoredCheckpoint open_checkpoint(const std::filesystem::path& folder, ShardsExpected expected = ShardsExpected::all);

struct NewestCheckpoint {
  std::optional<StoredCheckpoint> checkpoint;
  std::vector<std::string> skipped;  // a line for each damaged one that is newer
};

// The newest checkpoint that is not damaged and that `accept` takes without a Failure; nothing if there is none at all. A Failure
// if there are some and all are damaged: starting from nothing is for the user to decide. A checkpoint of a newer format
// version is a UserError, for going on from an older one would lose work.
//
// With `ranks`, all of them make this call and come to the same checkpoint: one that is damaged for any of them is passed over.
NewestCheckpoint find_latest(
    const std::filesystem::path& folder,
    const std::function<void(const StoredCheckpoint&)>& accept = [](const StoredCheckpoint&) {}, Control* ranks = nullptr);

// The request does not fit the checkpoint: another model, not damage. An older checkpoint would not help.
struct CheckpointMismatch : Failure {
  using Failure::Failure;
};

struct Retention {
  int64_t keep_last = 2;  // by step
  int64_t keep_best = 1;  // by validation loss, of those that have one; -1: all are kept, also those without
};

struct CheckpointSummary {
  int64_t step = 0;
  std::optional<double> validation_loss;
};

// Steps that may go, now that `newest` has been saved; `newest` itself always stays.
std::vector<int64_t> steps_to_remove(std::span<const CheckpointSummary> checkpoints, int64_t newest, const Retention& retention);

// Removes what `retention` does not keep. Damaged checkpoints, and those of a newer version, are left for the user to look at.
void remove_old_checkpoints(const std::filesystem::path& folder, int64_t newest, const Retention& retention);

// Removes what a killed writer left.
void remove_temporary_folders(const std::filesystem::path& folder);

inline constexpr const char* kWritingSuffix = ".writing";
inline constexpr const char* kRemovingSuffix = ".removing";

}  // namespace trireme
