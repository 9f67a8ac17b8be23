#include "base/process.h"

#include <fstream>
#include <string>

namespace trireme {
namespace {

// A line such as "VmHWM:     12345 kB".
int64_t status_kilobytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.compare(0, key.size(), key) == 0) return std::stoll(line.substr(key.size()));
  return 0;
}

}  // namespace

int64_t resident_bytes() { return status_kilobytes("VmRSS:") * 1024; }
int64_t peak_resident_bytes() { return status_kilobytes("VmHWM:") * 1024; }

}  // namespace trireme
