// A file that records are appended to, each whole or not at all, for logs that must survive anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"
#include "telemetry/step_record.h"

namespace trireme {

// Every append goes to the kernel before it returns, so a killed process loses nothing (a machine that loses power may). On a
// full disk the part of a record that got through is taken back, one warning is given, and later records are tried again.
class LogFile {
 public:
  // Opens or creates the file and its folder; what is in the file stays.
  LogFile(const std::string& path, Notify notify);

  void append(std::string_view record);
  void cut(int64_t size);  // keeps the first `size` bytes
  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Notify notify_;
  File file_;
  int64_t size_ = 0;  // of the whole records
  bool warned_ = false;
};

}  // namespace trireme
