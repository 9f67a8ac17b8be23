// The children of a supervisor: started so that they die with it, and told apart from what they leave behind.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "launch/job.h"

namespace trireme {

struct Child {
  pid_t process = 0;
  int64_t slot = 0;  // of the ranks or tasks that it runs: the local rank, or 0
  bool has_ended = false;
  int status = 0;  // exit status; 128 + signal number if a signal ended it
};

// stdout and stderr of the child are `output`, its stdin `input` or nothing (-1). A command that cannot be started exits with
// 127.
pid_t start_child(const std::vector<std::string>& command, const std::vector<EnvironmentVariable>& environment, int output,
                  int input);

// Makes this process the parent of whatever its descendants leave behind.
void adopt_orphans();
// Kills all children of this process that are not in `known`, and waits for them.
void kill_orphans(const std::vector<Child>& known);

}  // namespace trireme
