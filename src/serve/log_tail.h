// A log file that grows: reads what was appended, and notices when it was shortened or replaced.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class LogTail {
 public:
  explicit LogTail(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  int64_t offset() const { return offset_; }
  int64_t size() const { return is_given_up_ ? offset_ : size_; }  // as of the last call of look

  bool is_read() const { return offset_ >= size() || size_ == incomplete_size_; }  // but for a torn end

  // Nothing after the offset is read any more, until the file is replaced.
  void give_up() { is_given_up_ = true; }

  // Whether the file still begins with what was read. A file that cannot be read has nothing new, nor one in which nothing was
  // complete and that has not grown since.
  enum class State : uint8_t { same, grown, replaced };
  State look();

  // Passes what is there, at most `most` bytes, to `consume`, which returns how many bytes of it are complete records. Returns
  // whether it consumed any.
  bool read(size_t most, const std::function<size_t(std::string_view)>& consume);

 private:
  std::string path_;
  int64_t offset_ = 0, size_ = 0;
  int64_t incomplete_size_ = -1;  // of the file when nothing more in it was complete
  bool is_given_up_ = false;
  ino_t inode_ = 0;
  std::string before_;  // the bytes before the offset: a file that was shortened and grew again has others there
};

// The last whole lines of a file, oldest first, of at most its last `most_bytes` bytes.
std::vector<std::string> last_lines(const std::string& path, size_t count, size_t most_bytes);

// Bytes `offset` to `offset + size` of a file; fewer if it is shorter, none if it cannot be read.
std::string read_part(const std::string& path, int64_t offset, size_t size);

}  // namespace trireme
