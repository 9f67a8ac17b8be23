#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <system_error>

#include "base/error.h"

namespace trireme {
namespace {

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error = errno) {
  throw Failure("cannot {} {}: {}", action, path.string(), std::generic_category().message(error));
}

// Repeats a system call that a signal interrupted.
template <class Call>
auto retried(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

std::string size_text(int64_t bytes) {
  constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
  const auto size = static_cast<double>(bytes);
  return size < kGiB ? fmt::format("{:.1f} MiB", size / kMiB) : fmt::format("{:.1f} GiB", size / kGiB);
}

}  // namespace

File::File(const std::filesystem::path& path, int flags, const char* action)
    : path_(path), descriptor_(retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); })) {
  if (descriptor_ < 0) fail(action, path);
}

File File::open(const std::filesystem::path& path) { return {path, O_RDONLY, "open"}; }
File File::create(const std::filesystem::path& path) { return {path, O_WRONLY | O_CREAT | O_TRUNC, "create"}; }
File File::open_update(const std::filesystem::path& path) { return {path, O_RDWR | O_CREAT, "write"}; }
File File::open_append(const std::filesystem::path& path) { return {path, O_WRONLY | O_CREAT | O_APPEND, "append to"}; }

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail("read the size of", path_);
  return status.st_size;
}

void File::read_at(int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = retried([&] { return ::pread(descriptor_, to.data(), to.size(), offset); });
    if (count < 0) fail("read", path_);
    if (count == 0) throw Failure("{} ends at byte {}; {} more were expected", path_.string(), offset, to.size());
    offset += count;
    to = to.subspan(static_cast<size_t>(count));
  }
}

void File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = retried([&] { return ::write(descriptor_, bytes.data(), bytes.size()); });
    if (count < 0) fail("write", path_);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void File::write_at(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = retried([&] { return ::pwrite(descriptor_, bytes.data(), bytes.size(), offset); });
    if (count < 0) fail("write", path_);
    offset += count;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void File::resize(int64_t bytes) {
  if (retried([&] { return ::ftruncate(descriptor_, bytes); }) != 0) fail("resize", path_);
}

bool File::lock() {
  if (retried([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); }) == 0) return true;
  // A network file system without locks is not an error.
  if (errno != EWOULDBLOCK && errno != ENOLCK && errno != ENOTSUP && errno != ENOSYS) fail("lock", path_);
  return errno != EWOULDBLOCK;
}

void File::sync() {
  if (retried([&] { return ::fsync(descriptor_); }) != 0) fail("write to disk", path_);
}

void File::start_sync(int64_t offset, int64_t bytes) { ::sync_file_range(descriptor_, offset, bytes, SYNC_FILE_RANGE_WRITE); }

// Reads to the end instead of trusting the size, which is 0 for pipes and files in /proc.
std::string read_file(const std::filesystem::path& path, int64_t limit) {
  const File file = File::open(path);
  std::string contents(static_cast<size_t>(std::min(file.size(), limit)) + 1, '\0');
  size_t used = 0;
  for (;;) {
    if (used == contents.size()) contents.resize(used * 2);
    const ssize_t count = retried([&] { return ::read(file.descriptor_, contents.data() + used, contents.size() - used); });
    if (count < 0) fail("read", path);
    if (count == 0) break;
    used += static_cast<size_t>(count);
    if (narrow<int64_t>(used) > limit) throw Failure("{} has more than the {} bytes allowed", path.string(), limit);
  }
  contents.resize(used);
  return contents;
}

void atomic_write(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const std::filesystem::path temporary = fmt::format("{}.{}.partial", path.string(), ::getpid());
  try {
    File file = File::create(temporary);
    file.write(bytes);
    file.sync();
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("write", path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(folder_of(path));
}

std::filesystem::path numbered_name(const std::filesystem::path& path) {
  for (int i = 1;; ++i)
    if (std::filesystem::path name =
            path.parent_path() / fmt::format("{}.{}{}", path.stem().string(), i, path.extension().string());
        !std::filesystem::exists(name))
      return name;
}

void create_folders(const std::filesystem::path& folder) {
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return;
  create_folders(folder.parent_path());
  std::filesystem::create_directory(folder, error);
  if (error) fail("create the folder", folder, error.value());
  sync_folder(folder_of(folder));
}

void sync_folder(const std::filesystem::path& folder) {
  const File file(folder, O_RDONLY | O_DIRECTORY, "open the folder");
  // Some network file systems cannot sync folders and return EINVAL.
  if (retried([&] { return ::fsync(file.descriptor_); }) != 0 && errno != EINVAL) fail("write to disk the folder", folder);
}

void remove_tree(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) fail("remove", path, error.value());
}

void rename_or_exchange(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  if (!std::filesystem::exists(to, error)) {
    if (::rename(from.c_str(), to.c_str()) != 0) fail("rename to", to);
  } else if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) fail("rename to", to);
    // Network file systems cannot exchange names; there `to` is missing for a moment.
    const std::filesystem::path aside = from.string() + ".replaced";
    if (::rename(to.c_str(), aside.c_str()) != 0 || ::rename(from.c_str(), to.c_str()) != 0 ||
        ::rename(aside.c_str(), from.c_str()) != 0)
      fail("rename to", to);
  }
  sync_folder(folder_of(to));
}

int64_t free_bytes(const std::filesystem::path& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) fail("read the free space of", folder);
  // A file system without a size reports no blocks.
  if (status.f_blocks == 0) return std::numeric_limits<int64_t>::max();
  return narrow<int64_t>(status.f_bavail * status.f_frsize);
}

void require_free_space(const std::filesystem::path& folder, int64_t bytes, std::string_view purpose) {
  const int64_t available = free_bytes(folder);
  if (bytes > available)
    throw Failure("{}: it needs {} in {}, where {} is free", purpose, size_text(bytes), folder.string(), size_text(available));
}

}  // namespace trireme
