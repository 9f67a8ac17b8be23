// How jobs are doing: from what they left in their folders, else from Slurm's queue, accounting or memory, in this order.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "launch/launch_target.h"

namespace trireme {

// A line of squeue, one per job or per task of an array.
struct QueuedJob {
  std::string state;   // PENDING, RUNNING, COMPLETING, ...
  std::string reason;  // why it waits
  std::string submitted, start, used, limit, nodes;
};
// The format to ask squeue for, and its lines.
inline constexpr const char* kQueueFormat = "%T|%r|%V|%S|%M|%l|%N";
std::vector<QueuedJob> parse_queue(const std::string& squeue_output);

// A final state of Slurm, such as CANCELLED by 0 or TIMEOUT, with an exit status such as 1:0.
JobStatus status_of_state(const std::string& state, const std::string& exit_code);

class SlurmJobQueue {
 public:
  // Keeps in the folder of a new job what Slurm forgets.
  void remember(const JobRecord& job, int64_t tasks, const std::vector<JobRecord>& after);
  int64_t tasks_of(const JobRecord& job) const;  // 0: not an array

  // Asks Slurm at most every two seconds per job.
  JobStatus status(const JobRecord& job);
  void forget(const std::string& id) { known_.erase(id); }

 private:
  JobStatus ask(const JobRecord& job);

  struct Known {
    std::chrono::steady_clock::time_point when;
    JobStatus status;
  };
  std::map<std::string, Known> known_;
};

}  // namespace trireme
