// Files seen as memory: whole files for reading, and new files of a known size for writing in any order. Both throw a Failure
// that names the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace trireme {

// A file that is read in place. Opening takes no time however large it is; pages come in when they are touched.
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

// Has the system begin to read the page of a mapped file that holds `at`, without waiting for it: pages that are asked for before
// the first is touched come from the disk together. A wish; memory that is no file's is left alone.
void ask_for_page(const std::byte* at);

// A new file whose bytes, zeros at first, are written through memory. Its disk blocks are taken when it is made, so a full disk
// is a Failure then and not a crash later. Nobody sees it under its name before commit(); dropped without, it leaves nothing.
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

// A name beside `path` that no other process uses, on this machine or another, for a file in the making.
std::filesystem::path partial_name(const std::filesystem::path& path);

}  // namespace trireme
