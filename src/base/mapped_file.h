// Memory-mapped files: whole files for reading, and new files of a known size for writing in any order. Both throw a Failure that
// names the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace trireme {

// A file that is read in place. Opening takes constant time; pages are loaded when they are touched.
class MappedFile {
 public:
  static MappedFile open(const std::filesystem::path& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  std::span<std::byte> bytes_;
};

// Starts reading the page of a mapped file that contains `at`, without waiting. Pages that are requested before the first is
// touched are read together. Only a hint; other memory is unaffected.
void ask_for_page(const std::byte* at);

// A new, zeroed file that is written through memory. Its disk blocks are allocated at construction, so a full disk is a Failure
// then and not a crash later. It appears under its name at commit(); without commit() it leaves no file.
class MappedOutput {
 public:
  static MappedOutput create(const std::filesystem::path& path, int64_t size);

  MappedOutput(MappedOutput&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, {})),
        bytes_(std::exchange(other.bytes_, {})),
        descriptor_(std::exchange(other.descriptor_, -1)) {}
  MappedOutput& operator=(MappedOutput&&) = delete;
  ~MappedOutput();

  std::span<std::byte> bytes() { return bytes_; }
  void commit();  // durable when it returns

 private:
  MappedOutput(std::filesystem::path path, std::filesystem::path temporary)
      : path_(std::move(path)), temporary_(std::move(temporary)) {}

  std::filesystem::path path_, temporary_;
  std::span<std::byte> bytes_;
  int descriptor_ = -1;
};

// Returns a temporary name beside `path` that no other process on any machine uses.
std::filesystem::path partial_name(const std::filesystem::path& path);

}  // namespace trireme
