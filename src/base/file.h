// Files and folders for logs and checkpoints: atomic writes are complete or absent, and synced data survives a power failure. All
// functions throw a Failure that names the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

// Returns the bytes of a text, for functions that take bytes.
inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

// An open file; the destructor closes it.
class File {
 public:
  static File open(const std::filesystem::path& path);         // for reading
  static File create(const std::filesystem::path& path);       // for writing; truncates an existing file
  static File open_update(const std::filesystem::path& path);  // for reading and writing in place; created if missing
  static File open_append(const std::filesystem::path& path);  // every write appends; created if missing

  File(File&& other) noexcept : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File();

  const std::filesystem::path& path() const { return path_; }
  int64_t size() const;

  void read_at(int64_t offset, std::span<std::byte> to) const;  // fills all of `to`, or throws a Failure
  void write(std::span<const std::byte> bytes);                 // writes all bytes after the previous write
  void write(std::string_view text) { write(bytes_of(text)); }
  void write_at(int64_t offset, std::span<const std::byte> bytes);  // writes all bytes at `offset`, which may be beyond the end
  void resize(int64_t bytes);
  bool lock();  // false: another process holds it; released when the file is closed
  void sync();  // returns when the contents are on disk
  // Starts writing these bytes to disk without waiting, so that sync() has less to wait for. Only a hint.
  void start_sync(int64_t offset, int64_t bytes);

 private:
  File(const std::filesystem::path& path, int flags, const char* action);
  friend std::string read_file(const std::filesystem::path& path, int64_t limit);
  friend void sync_folder(const std::filesystem::path& folder);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

// Returns the whole contents; Failure if the file has more than `limit` bytes.
std::string read_file(const std::filesystem::path& path, int64_t limit);

// Replaces `path` atomically: a reader, also after a crash, sees the old or the new contents.
void atomic_write(const std::filesystem::path& path, std::span<const std::byte> bytes);

// Returns a free name beside `path`: metrics.1.csv, metrics.2.csv, ...
std::filesystem::path numbered_name(const std::filesystem::path& path);

void create_folders(const std::filesystem::path& folder);  // including parents; durable
void sync_folder(const std::filesystem::path& folder);     // makes the names in it durable
void remove_tree(const std::filesystem::path& path);       // does nothing if it does not exist

// Renames `from` to `to` in the same folder, durably. If `to` exists, even as a non-empty folder, the two names are exchanged
// atomically if the file system can do that, and the old contents are then named `from`.
void rename_or_exchange(const std::filesystem::path& from, const std::filesystem::path& to);

// Returns how many bytes this user can still write to the file system of `folder`.
int64_t free_bytes(const std::filesystem::path& folder);

// Failure unless `bytes` fit; `purpose` starts the message: "cannot save step-00000100".
void require_free_space(const std::filesystem::path& folder, int64_t bytes, std::string_view purpose);

}  // namespace trireme
