// A file that records are appended to, each whole or not at all, for logs that must survive anything.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "telemetry/step_record.h"

namespace trireme {

// Every append goes to the kernel before it returns, so a killed process loses nothing (a machine that loses power may). On a
// full disk the part of a record that got through is taken back, one warning is given, and later records are tried again.
//
// The kernel copies a write page by page, and SIGKILL can come between two pages. So that records are not torn even then, they
// are kept from crossing pages: a record after which the next one would cross is filled up to the end of its page. filler_for
// says with how many bytes; in lines they are spaces at the end.
//
// A file that several processes write to has the first promise only for lines that fit in a page.
enum class LogWriters : uint8_t { this_one, many };

class LogFile {
 public:
  // Opens or creates the file and its folder; what is in the file stays.
  LogFile(const std::string& path, Notify notify, LogWriters writers = LogWriters::this_one);

  void append(std::string_view record);
  void append_line(std::string& line);  // `line` without its newline; what is added to it stays added
  size_t filler_for(size_t record_bytes) const;
  void cut(int64_t size);  // keeps the first `size` bytes
  // Keeps the whole lines before the first that is not wanted. A last line that was torn goes too.
  void keep_lines(const std::function<bool(std::string_view)>& wanted);
  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Notify notify_;
  LogWriters writers_;
  File file_;
  int64_t size_ = 0;  // of the whole records
  bool warned_ = false;
};

}  // namespace trireme
