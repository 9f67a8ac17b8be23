// Checkpoints in a folder of each machine, and their copies in the run's folder. A save is done for the training once it is in
// the local folder, a fast disk or memory; a thread copies the newest one to the run's folder, however long that takes.
//
//   save    every rank writes its shard into the local folder of its machine; the first rank of each machine commits it with the
//           manifest of all shards
//   copy    every rank copies its shard; rank 0 commits the copy. What is saved meanwhile waits; of several the newest is copied
//   load    a machine that kept its local folder has the newest checkpoint of its ranks there
//
// The last two local checkpoints are kept. All ranks of the job make the same calls.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "train/checkpoint/folder.h"

namespace trireme {

struct ShardLayout;

class LocalStore {
 public:
  // `folder`: on this machine, of this run only. `is_leader`: the first rank of its machine.
  enum class Leader : uint8_t { yes, no };
  LocalStore(std::filesystem::path folder, std::filesystem::path shared, Leader leader, Retention retention, Control& ranks);
  ~LocalStore();
  LocalStore(const LocalStore&) = delete;
  LocalStore& operator=(const LocalStore&) = delete;

  // Writes the shard of this rank, whose image is `image`, and commits. A Failure if any rank cannot; then nothing is changed.
  void save(const CheckpointInfo& info, const ShardLayout& layout, std::span<const std::byte> image);
  void check_copies();     // throws the failure of a copy, once
  void wait_for_copies();  // until the newest save is in the run's folder; throws its failure
  void remove();           // the local folder

 private:
  struct Saved {
    CheckpointManifest manifest;
    std::string own_file;  // empty: this rank has no shard
  };
  static constexpr int64_t kNoStep = -1;

  std::string write_own(const CheckpointInfo& info, const ShardLayout& layout, std::span<const std::byte> image);
  void commit(const CheckpointManifest& manifest);
  void run();
  std::optional<Saved> next_to_copy();
  void copy(const Saved& saved);
  std::string copy_own(const Saved& saved) const;
  std::filesystem::path of_step(int64_t step) const { return folder_ / checkpoint_name(step); }

  std::filesystem::path folder_, shared_;
  Leader leader_;
  Retention retention_;
  Control& ranks_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Saved> saved_;  // the last ones
  int64_t copying_ = kNoStep, copied_ = kNoStep, failed_ = kNoStep;
  bool has_ended_ = false;
  std::string trouble_;
  bool stop_ = false;
  std::thread thread_;
};

// The folder of a run below `local_dir`.
std::filesystem::path local_store_folder(const std::filesystem::path& local_dir, const std::filesystem::path& run);

}  // namespace trireme
