// The supervisor of a launch as its parent sees it: `trireme launch local`, which follows it, or leaves it alone with --detach.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/local/process_id.h"

namespace trireme {

// argv of the supervisor of a launch, as users may also see it in ps.
std::vector<std::string> supervisor_command(const std::filesystem::path& launch_file);

class SupervisorProcess {
 public:
  // Starts the command in a session of its own and returns when every job has a status. Failure if it cannot begin. From now on
  // Ctrl-C, SIGTERM and SIGHUP of this process are kept for pass_signals().
  explicit SupervisorProcess(const std::vector<std::string>& command);
  ~SupervisorProcess();
  SupervisorProcess(const SupervisorProcess&) = delete;
  SupervisorProcess& operator=(const SupervisorProcess&) = delete;

  const ProcessId& id() const { return id_; }
  void follow();         // from now on the end of this process is a request to stop
  void pass_signals();   // those that have come since the last call
  void print_notices();  // what the supervisor has to say on the terminal

 private:
  ProcessId id_;
  int socket_ = -1;
  bool is_followed_ = false;
};

}  // namespace trireme
