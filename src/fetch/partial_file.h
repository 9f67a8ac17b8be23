// A file that is being downloaded. NAME.partial has its bytes and NAME.partial.json the state, so that a run killed at any moment
// can be resumed. NAME itself exists only when complete.
//
// The file is split into chunks. One thread at a time fills a chunk from its front; different chunks are filled concurrently.
#pragma once

#include <atomic>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/sha256.h"
#include "fetch/http.h"

namespace trireme {

// Returns whether this is the name of one of our temporary files.
bool is_name_of_unfinished(std::string_view name);

class PartialFile {
 public:
  // Failure if another process is downloading the same file.
  explicit PartialFile(std::filesystem::path target);

  enum class Resume : uint8_t {
    same_file,  // only if the earlier bytes came from the same file
    same_size,  // from any source; a checksum verifies the result
    never,
  };
  // Resumes from the saved state, or starts again. A file of unknown size, or a source without range support, has one chunk.
  void begin(const RemoteFile& remote, int64_t chunk_bytes, Resume resume);

  // Increases with every begin. Bytes of an earlier generation are rejected.
  int64_t generation() const { return generation_; }

  struct Range {
    int64_t begin, end;  // missing bytes of a chunk; end -1: until the end
  };
  size_t chunks() const { return chunks_.size(); }
  std::optional<Range> missing(size_t chunk, int64_t generation) const;  // no value: begin was called meanwhile
  bool has(size_t chunk) const;
  bool complete() const;
  int64_t bytes_done() const;
  RemoteFile remote() const;

  // Adds facts about the file that were unknown. TransferError if the response describes another file.
  void learn(const RemoteFile& answer);
  // Returns false if begin was called meanwhile. Failure if the bytes exceed the chunk or the disk is full.
  bool append(size_t chunk, int64_t generation, std::span<const std::byte> bytes);
  void restart_chunk(size_t chunk, int64_t generation);
  void end_chunk(size_t chunk, int64_t generation);  // the source has ended; sets a size that was unknown
  void adopt();                                      // another program has filled the file

  void save();        // makes the current state survive a crash
  void hash_ahead();  // hashes the finished chunks at the front, unless another thread does

  std::string finish_hash();           // over all bytes
  void commit();                       // renames it to its final name
  std::filesystem::path keep_aside();  // renames it to NAME.mismatch
  void discard();                      // removes all files of the download
  const std::filesystem::path& target() const { return target_; }
  const std::filesystem::path& path() const { return bytes_path_; }  // of NAME.partial

 private:
  struct Chunk {
    Chunk(int64_t from, int64_t to, int64_t there) : begin(from), end(to), done(there) {}
    int64_t begin, end;
    std::atomic<int64_t> done;
    std::atomic<bool> ended{false};
  };

  bool resume_from_state(const RemoteFile& remote, Resume resume);
  void lay_out(int64_t chunk_bytes);
  bool is_full(const Chunk& chunk) const { return chunk.end < 0 ? chunk.ended.load() : chunk.done == chunk.end - chunk.begin; }
  void hash_until(int64_t end);

  const std::filesystem::path target_, bytes_path_, state_path_;
  File file_;
  mutable std::shared_mutex mutex_;  // shared: write bytes; exclusive: change the members below
  RemoteFile remote_;
  int64_t chunk_bytes_ = 0;
  std::deque<Chunk> chunks_;
  std::atomic<int64_t> generation_{0};
  std::mutex state_mutex_;  // guards the saved state and ended_
  bool ended_ = false;
  std::mutex hash_mutex_;
  Sha256 hash_;
};

}  // namespace trireme
