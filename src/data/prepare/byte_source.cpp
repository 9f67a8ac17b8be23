#include "data/prepare/byte_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace trireme::prepare {
namespace {

[[noreturn]] void fail(const char* action) {
  throw InputError("cannot be {}: {}", action, std::generic_category().message(errno));
}

class FileSource final : public ByteSource {
 public:
  FileSource(const std::filesystem::path& path, int64_t begin, int64_t end, std::atomic<int64_t>& bytes_read)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), at_(begin), end_(end), bytes_read_(bytes_read) {
    if (descriptor_ < 0) fail("opened");
    ::posix_fadvise(descriptor_, begin, end - begin, POSIX_FADV_SEQUENTIAL);
  }
  ~FileSource() override { ::close(descriptor_); }

  size_t read(std::span<char> to) override {
    to = to.first(std::min(to.size(), static_cast<size_t>(end_ - at_)));
    size_t filled = 0;
    while (filled < to.size()) {
      const ssize_t count = ::pread(descriptor_, to.data() + filled, to.size() - filled, at_);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("read");
      if (count == 0) throw InputError("byte {}: the file has become shorter", at_);
      filled += static_cast<size_t>(count);
      at_ += count;
    }
    bytes_read_.fetch_add(static_cast<int64_t>(filled), std::memory_order_relaxed);
    return filled;
  }

  void give_back(size_t bytes) override { bytes_read_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed); }

 private:
  int descriptor_;
  int64_t at_, end_;
  std::atomic<int64_t>& bytes_read_;
};

class StreamSource final : public ByteSource {
 public:
  explicit StreamSource(const std::string& path)
      : descriptor_(path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) fail("opened");
  }
  ~StreamSource() override {
    if (descriptor_ != STDIN_FILENO) ::close(descriptor_);
  }

  size_t read(std::span<char> to) override {
    size_t filled = 0;
    while (filled < to.size()) {
      const ssize_t count = ::read(descriptor_, to.data() + filled, to.size() - filled);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("read");
      if (count == 0) break;
      filled += static_cast<size_t>(count);
    }
    return filled;
  }

 private:
  int descriptor_;
};

}  // namespace

std::unique_ptr<ByteSource> open_stream_source(const std::string& path) { return std::make_unique<StreamSource>(path); }

std::unique_ptr<ByteSource> open_file_source(const std::filesystem::path& path, int64_t begin, int64_t end,
                                             std::atomic<int64_t>& bytes_read) {
  return std::make_unique<FileSource>(path, begin, end, bytes_read);
}

}  // namespace trireme::prepare
