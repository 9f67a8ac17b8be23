#include "serve/log_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace trireme {
namespace {

constexpr size_t kRemembered = 64;

// A file that is open for reading; closed if it is not a plain file or cannot be read.
class OpenLog {
 public:
  explicit OpenLog(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ >= 0 && (::fstat(descriptor_, &status_) != 0 || !S_ISREG(status_.st_mode))) {
      ::close(descriptor_);
      descriptor_ = -1;
    }
  }
  ~OpenLog() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenLog(const OpenLog&) = delete;
  OpenLog& operator=(const OpenLog&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int64_t size() const { return status_.st_size; }
  ino_t inode() const { return status_.st_ino; }

  std::string read(int64_t offset, size_t size) const {
    std::string bytes(size, '\0');
    size_t filled = 0;
    while (filled < size) {
      const ssize_t got = ::pread(descriptor_, bytes.data() + filled, size - filled, offset + static_cast<int64_t>(filled));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      filled += static_cast<size_t>(got);
    }
    bytes.resize(filled);
    return bytes;
  }

 private:
  int descriptor_;
  struct stat status_ {};
};

}  // namespace

LogTail::State LogTail::look() {
  const OpenLog file(path_);
  if (!file.is_open()) return State::same;
  const bool was_read = offset_ > 0;
  if (was_read && (file.inode() != inode_ || file.size() < offset_)) return State::replaced;
  if (was_read && file.size() != size_ && file.read(offset_ - static_cast<int64_t>(before_.size()), before_.size()) != before_)
    return State::replaced;
  inode_ = file.inode();
  size_ = file.size();
  return size_ > offset_ && !is_given_up_ ? State::grown : State::same;
}

bool LogTail::read(size_t most, const std::function<size_t(std::string_view)>& consume) {
  const OpenLog file(path_);
  if (!file.is_open() || is_given_up_ || file.size() <= offset_ || file.size() == incomplete_size_) return false;
  const std::string bytes = file.read(offset_, std::min(most, static_cast<size_t>(file.size() - offset_)));
  const size_t used = consume(bytes);
  if (used == 0) {
    const bool was_all = offset_ + std::ssize(bytes) == file.size();
    if (was_all) incomplete_size_ = file.size();
    return false;
  }
  inode_ = file.inode();
  offset_ += static_cast<int64_t>(used);
  size_ = std::max(file.size(), offset_);
  const size_t kept = std::min(used, kRemembered);
  before_.append(bytes, used - kept, kept);
  if (before_.size() > kRemembered) before_.erase(0, before_.size() - kRemembered);
  return true;
}

std::string read_part(const std::string& path, int64_t offset, size_t size) {
  const OpenLog file(path);
  if (!file.is_open() || offset >= file.size()) return {};
  return file.read(offset, std::min(size, static_cast<size_t>(file.size() - offset)));
}

std::vector<std::string> last_lines(const std::string& path, size_t count, size_t most_bytes) {
  const OpenLog file(path);
  if (!file.is_open()) return {};
  const int64_t begin = std::max<int64_t>(file.size() - static_cast<int64_t>(most_bytes), 0);
  const std::string bytes = file.read(begin, static_cast<size_t>(file.size() - begin));
  std::string_view rest(bytes);
  if (begin > 0) rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);  // the first line is not whole
  std::vector<std::string> lines;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    if (end == rest.npos) break;
    lines.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

}  // namespace trireme
