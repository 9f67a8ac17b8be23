// A file on its way. NAME.partial holds its bytes, NAME.partial.json what they are and how far they are, so that a run that was
// killed at any moment can be gone on with. NAME itself is there only when it is whole.
//
// The file is cut in chunks, each filled from its front by one thread at a time; different chunks may be filled at once.
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

// Whether a file of this name is one that we keep while another is on its way.
bool is_name_of_unfinished(std::string_view name);

class PartialFile {
 public:
  // Failure if another process is bringing the same file.
  explicit PartialFile(std::filesystem::path target);

  enum class Resume : uint8_t {
    same_file,  // only if it is what the earlier bytes came from
    same_size,  // from anywhere: a checksum will tell
    never,
  };
  // Goes on with what is there, or starts anew. A size that is not known, or a place that does not give parts, means one chunk.
  void begin(const RemoteFile& remote, int64_t chunk_bytes, Resume resume);

  // Every begin has another number. Bytes of an earlier one are refused.
  int64_t generation() const { return generation_; }

  struct Range {
    int64_t begin, end;  // what a chunk still misses; end -1: until there is no more
  };
  size_t chunks() const { return chunks_.size(); }
  std::optional<Range> missing(size_t chunk, int64_t generation) const;  // nothing: it was begun anew meanwhile
  bool has(size_t chunk) const;
  bool complete() const;
  int64_t bytes_done() const;
  RemoteFile remote() const;

  // Takes over what was not known about the file. TransferError if the answer is about another one.
  void learn(const RemoteFile& answer);
  // False: the chunk was begun anew meanwhile. Failure if the bytes go beyond the chunk, or the disk is full.
  bool append(size_t chunk, int64_t generation, std::span<const std::byte> bytes);
  void restart_chunk(size_t chunk, int64_t generation);
  void end_chunk(size_t chunk, int64_t generation);  // there are no more bytes; fixes a size that was not known
  void adopt();                                      // the file was filled by another program

  void save();        // what is there now survives a crash
  void hash_ahead();  // takes the finished chunks at the front into the checksum, unless another thread is at it

  std::string finish_hash();           // of all bytes
  void commit();                       // gives the file its name
  std::filesystem::path keep_aside();  // gives it the name NAME.mismatch
  void discard();                      // removes what is there
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
  mutable std::shared_mutex mutex_;  // shared: to write bytes; alone: to change what follows
  RemoteFile remote_;
  int64_t chunk_bytes_ = 0;
  std::deque<Chunk> chunks_;
  std::atomic<int64_t> generation_{0};
  std::mutex state_mutex_;  // what is saved, and when there is nothing more to save
  bool ended_ = false;
  std::mutex hash_mutex_;
  Sha256 hash_;
};

}  // namespace trireme
