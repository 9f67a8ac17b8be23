// Dumps the stack of a running process on request: SIGUSR1 (which mpirun forwards to all ranks) or SIGQUIT appends the main
// thread's stack to a file, and the process continues.
#pragma once

#include <filesystem>

namespace trireme {

class StackDump {
 public:
  // Construct on the main thread; only one may exist. The file is created when first needed.
  explicit StackDump(const std::filesystem::path& path);
  ~StackDump();
  static void request();  // any thread: the main thread dumps its stack, if there is a StackDump
  StackDump(const StackDump&) = delete;
  StackDump& operator=(const StackDump&) = delete;
};

}  // namespace trireme
