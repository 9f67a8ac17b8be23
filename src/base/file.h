// Files and folders, with the two promises that logs and checkpoints need: what is written whole is there whole or not at all,
// and what is synced survives a power cut. Everything here throws a Failure that names the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

// The bytes of a text, for functions that take bytes.
inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

// An open file; closed when it goes.
class File {
 public:
  static File open(const std::filesystem::path& path);         // for reading
  static File create(const std::filesystem::path& path);       // for writing, emptied if it is there
  static File open_update(const std::filesystem::path& path);  // for reading and writing in place; made if it is not there
  static File open_append(const std::filesystem::path& path);  // every write goes to the end; made if it is not there

  File(File&& other) noexcept : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File();

  const std::filesystem::path& path() const { return path_; }
  int64_t size() const;

  void read_at(int64_t offset, std::span<std::byte> to) const;  // all of `to`, or a Failure
  void write(std::span<const std::byte> bytes);                 // all of them, after what was written before
  void write(std::string_view text) { write(bytes_of(text)); }
  void write_at(int64_t offset, std::span<const std::byte> bytes);  // all of them, where the file may have others or none
  void resize(int64_t bytes);
  bool lock();  // false: another process holds it; let go when the file is closed
  void sync();  // returns when the contents are on the disk
  // Has the system begin to write these bytes to the disk, without waiting for it: sync() then has less to wait for. A wish.
  void start_sync(int64_t offset, int64_t bytes);

 private:
  File(const std::filesystem::path& path, int flags, const char* action);
  friend std::string read_file(const std::filesystem::path& path, int64_t limit);
  friend void sync_folder(const std::filesystem::path& folder);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

// The whole contents; a file of more than `limit` bytes is a Failure.
std::string read_file(const std::filesystem::path& path, int64_t limit);

// Whoever opens `path`, now or after a crash, sees the old contents or the new ones.
void atomic_write(const std::filesystem::path& path, std::span<const std::byte> bytes);

// A name beside `path` that is free: metrics.1.csv, metrics.2.csv, ...
std::filesystem::path numbered_name(const std::filesystem::path& path);

void create_folders(const std::filesystem::path& folder);  // and those above it; durable
void sync_folder(const std::filesystem::path& folder);     // the names in it survive a power cut
void remove_tree(const std::filesystem::path& path);       // nothing there is fine

// Gives `from` the name `to` in the same folder, durably. If `to` is there, even as a folder that is not empty, the two names
// change places in one step where the file system can do that, and the old contents are then called `from`.
void rename_or_exchange(const std::filesystem::path& from, const std::filesystem::path& to);

// What this user may still write to the file system that holds `folder`.
int64_t free_bytes(const std::filesystem::path& folder);

// Failure unless `bytes` fit; `purpose` begins the message: "cannot save step-00000100".
void require_free_space(const std::filesystem::path& folder, int64_t bytes, std::string_view purpose);

}  // namespace trireme
