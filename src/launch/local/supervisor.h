// The process that looks after a launch on this machine: starts its jobs one after the other, starts them again after failures,
// and keeps their status. It runs in a session of its own and dies only with all of its ranks.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

// What it tells the command that started it, once the status of every job can be read. Anything else is why it cannot begin.
inline constexpr const char* kSupervisorReady = "ready";

struct SuperviseOptions {
  std::filesystem::path launch_file;  // local.json
  int leash = -1;                     // a socket to the command that started it; -1: none
  std::string job;                    // in a container: this job only, one attempt, as long as stdin is open
  bool resumes = false;               // with `job`
};

int supervise(const SuperviseOptions& options);

}  // namespace trireme
