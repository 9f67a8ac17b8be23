// The stack of a running process on request: SIGUSR1 (which mpirun passes on to all ranks) or SIGQUIT appends that of the main
// thread to a file, and the process goes on.
#pragma once

#include <filesystem>

namespace trireme {

class StackDump {
 public:
  // To be made by the main thread; one at a time. The file is made when it is first needed.
  explicit StackDump(const std::filesystem::path& path);
  ~StackDump();
  StackDump(const StackDump&) = delete;
  StackDump& operator=(const StackDump&) = delete;
};

}  // namespace trireme
