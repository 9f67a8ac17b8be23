// A file to which records are appended atomically, for logs that must survive a kill.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "telemetry/step_record.h"

namespace trireme {

// Every append reaches the kernel before it returns, so a killed process loses nothing (a power failure may). On a full disk a
// partial record is removed, one warning is given, and later records are tried again.
//
// The kernel copies a write page by page, and SIGKILL can interrupt it between two pages. To avoid torn records, records do not
// cross pages: a record is padded to the end of its page if the next one would cross. filler_for returns the number of padding
// bytes; in lines they are trailing spaces.
//
// If several processes write to a file, only lines that fit in a page are atomic.
enum class LogWriters : uint8_t { this_one, many };

class LogFile {
 public:
  // Opens or creates the file and its folder; existing contents stay.
  LogFile(const std::string& path, Notify notify, LogWriters writers = LogWriters::this_one);

  void append(std::string_view record);
  void append_line(std::string& line);  // `line` excludes its line end; padding is added to it
  size_t filler_for(size_t record_bytes) const;
  void cut(int64_t size);  // keeps the first `size` bytes
  // Keeps the complete lines before the first unwanted one. Also removes a torn last line.
  void keep_lines(const std::function<bool(std::string_view)>& wanted);
  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Notify notify_;
  LogWriters writers_;
  File file_;
  int64_t size_ = 0;  // total bytes of complete records
  bool warned_ = false;
};

}  // namespace trireme
