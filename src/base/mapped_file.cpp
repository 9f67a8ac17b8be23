#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"

namespace trireme {
namespace {

[[noreturn]] void mapping_failed(const char* action, const std::filesystem::path& path, int error = errno) {
  throw Failure("cannot {} {}: {}", action, path.string(), std::generic_category().message(error));
}

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0) mapping_failed("open", path);
  struct stat status {};
  if (::fstat(file.number, &status) != 0) mapping_failed("read the size of", path);
  if (!S_ISREG(status.st_mode)) throw Failure("cannot read {}: it is not a regular file", path.string());
  MappedFile mapped;
  mapped.path_ = path;
  if (status.st_size == 0) return mapped;  // an empty file cannot be mapped
  const auto size = static_cast<size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number, 0);
  if (address == MAP_FAILED) mapping_failed("map", path);
  mapped.bytes_ = {static_cast<std::byte*>(address), size};
  return mapped;
}

void ask_for_page(const std::byte* at) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  std::byte* const begin = const_cast<std::byte*>(at) - reinterpret_cast<uintptr_t>(at) % page;
  ::madvise(begin, page, MADV_WILLNEED);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

std::filesystem::path partial_name(const std::filesystem::path& path) {
  return fmt::format("{}.{}-{:08x}.partial", path.string(), ::getpid(), random_bits());
}

MappedOutput MappedOutput::create(const std::filesystem::path& path, int64_t size) {
  CHECK(size > 0);
  MappedOutput output(path, partial_name(path));
  output.descriptor_ = ::open(output.temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (output.descriptor_ < 0) mapping_failed("create", path);
  if (const int error = ::posix_fallocate(output.descriptor_, 0, size); error != 0) mapping_failed("write", path, error);
  void* const address = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED, output.descriptor_, 0);
  if (address == MAP_FAILED) mapping_failed("map", path);
  output.bytes_ = {static_cast<std::byte*>(address), static_cast<size_t>(size)};
  return output;
}

MappedOutput::~MappedOutput() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void MappedOutput::commit() {
  if (::msync(bytes_.data(), bytes_.size(), MS_SYNC) != 0) mapping_failed("write to disk", path_);
  if (::fsync(descriptor_) != 0) mapping_failed("write to disk", path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) mapping_failed("write", path_);
  temporary_.clear();
  sync_folder(path_.has_parent_path() ? path_.parent_path() : std::filesystem::path("."));
}

}  // namespace trireme
