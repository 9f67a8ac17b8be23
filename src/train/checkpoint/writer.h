// Saving. The tensors are copied into one staging buffer, which is the image of the shard file; training goes on while a
// thread writes it. Of several ranks each writes its own shard, and rank 0, once all are on the disk, the manifest that commits
// them; if one cannot be written, the save fails on all ranks alike.
//
//   CheckpointWriter writer(folder, tensors, {.keep_last = 2, .keep_best = 1});
//   writer.snapshot({.step = 100, .consumed_samples = 25600, .settings = yaml});   // returns after the copy
//   writer.check();                                                               // at every step: did it fail?
//   writer.wait();                                                                // at the end
//
// With a local store (local_store.h) a save goes to a folder of the machine first, and to `folder` later. If the local folder has
// no room, it goes to `folder` directly.
#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint/folder.h"
#include "train/checkpoint/local_store.h"
#include "train/checkpoint/slice.h"

namespace trireme {

// The image of one rank's shard file: its first bytes, and where each tensor goes.
struct ShardLayout {
  struct Entry {
    StoredTensor stored;  // its checksum comes with the data
    Tensor tensor;
    Backend* backend = nullptr;  // whose memory that is in; none: the host's
    int64_t begin = 0;           // in the file
  };
  std::string header;
  std::vector<Entry> entries;
  int64_t bytes = 0;
};
ShardLayout lay_out_shard(std::span<const CheckpointTensor> tensors);

// Writes and syncs the shard of `rank`. Every rank does this in the same temporary folder.
StoredShard write_shard(const std::filesystem::path& temporary, int64_t rank, const ShardLayout& layout,
                        std::span<const std::byte> image);

// The same without the image: `fill` is called for one tensor after the other and makes its contents.
StoredShard stream_shard(const std::filesystem::path& temporary, int64_t rank, const ShardLayout& layout,
                         const std::function<void(const StoredTensor&, std::span<std::byte>)>& fill);

// Makes the checkpoint real: writes the manifest and gives the temporary folder its final name. One rank does this, once it has
// the StoredShard of all.
void commit_checkpoint(const std::filesystem::path& temporary, const std::filesystem::path& folder,
                       const CheckpointManifest& manifest);

class CheckpointWriter {
 public:
  // Bytes of the staging buffer.
  static int64_t staging_bytes(std::span<const CheckpointTensor> tensors) { return lay_out_shard(tensors).bytes; }

  // The tensors stay where they are for the life of the writer. Allocates the staging buffer. With `ranks`, all of them make the
  // same calls.
  CheckpointWriter(std::filesystem::path folder, std::span<const CheckpointTensor> tensors, Retention retention,
                   Control* ranks = nullptr, std::unique_ptr<LocalStore> local = nullptr);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Waits until an earlier save is on the disk, copies the tensors, and starts writing them. Throws the failure of the earlier
  // save, in which case nothing new is saved, or a Failure of its own if the disk has no room.
  void snapshot(CheckpointInfo info);

  void check();  // throws the failure of a save that has ended; does not wait
  void wait();   // until the last save is on the disk; throws its failure
  // Until the next snapshot need not wait: the last save is on the disk, or in the local store.
  void wait_until_free();
  void remove_local_copies();  // of a run that needs them no longer

 private:
  std::filesystem::path temporary(int64_t step) const { return folder_ / (checkpoint_name(step) + kWritingSuffix); }
  void prepare(int64_t step);  // the folder, and room for what goes in
  void write(const CheckpointInfo& info);
  bool write_locally(const CheckpointInfo& info);   // false: there is no local store, or it has no room
  std::string write_own_shard(int64_t step) const;  // JSON: its entry of the manifest, or what went wrong
  void commit(const CheckpointInfo& info, const std::vector<std::string>& entries) const;

  std::filesystem::path folder_;
  Retention retention_;
  std::unique_ptr<Control> alone_;
  Control& ranks_;
  ShardLayout layout_;
  int64_t all_bytes_ = 0;  // that all ranks write; known to rank 0
  std::vector<std::byte> staging_;
  std::unique_ptr<LocalStore> local_;
  std::future<void> writing_;  // last, so that it is waited for before anything that the thread uses goes
};

}  // namespace trireme
