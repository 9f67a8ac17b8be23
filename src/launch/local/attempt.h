// One attempt of a job: starts its ranks, collects what they write, and ends when all of them have.
//
//   a rank fails         the others get a few seconds to leave by themselves, since they know why; then SIGTERM, then SIGKILL
//   a rank is stopped    (SIGSTOP) for some seconds: it is killed, which is a failure
//   a request to stop    goes to every rank; a second one kills them all
//   the supervisor dies  its children are killed by the kernel, and theirs in turn
#pragma once

#include <filesystem>
#include <string>

#include "launch/local/local_launch.h"
#include "launch/local/rank_logs.h"
#include "launch/local/stop_requests.h"
#include "launch/recovery.h"

namespace trireme {

struct AttemptEnd {
  int status = 0;
  std::string reason;  // one line
};

// `done_tasks`, by index, are left out, and those that succeed are added. `recovery` learns how the attempt fails; once it has
// done its first step the log says how the run came back.
AttemptEnd run_attempt(const LocalJob& job, const std::filesystem::path& launch_file, bool resumes, RankLogs& logs,
                       StopRequests& stop, std::vector<bool>& done_tasks, Recovery& recovery);

}  // namespace trireme
