// From a job to its processes: what starts the ranks, what each finds in its environment, and what it does before it becomes the
// program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/local/local_launch.h"

namespace trireme {

// What differs from attempt to attempt.
struct AttemptStart {
  std::string program;  // this one
  std::filesystem::path launch_file;
  std::string socket;    // where ranks report to their supervisor
  int port = 0;          // where ranks meet that mpirun does not start; 0: the environment says
  bool resumes = false;  // the ranks continue from the newest checkpoint
};

// Where Open MPI keeps shared memory and sockets of a job's ranks, instead of /dev/shm and /tmp. What killed processes leave
// there goes with the folder, at the end of the attempt or before the next one. Empty: Open MPI's own places are used.
std::filesystem::path scratch_folder(const LocalJob& job);

// argv of `trireme launch start-rank` for the ranks of a job: with mpirun in front, or the same for each rank.
std::vector<std::string> start_command(const LocalJob& job, const AttemptStart& start);
// argv that runs one attempt of a job in its container.
std::vector<std::string> container_command(const LocalJob& job, const AttemptStart& start);

// What the environment of a rank has beyond that of the job. mpirun tells its ranks the rest itself.
std::vector<EnvironmentVariable> rank_environment(const LocalJob& job, const AttemptStart& start, int64_t local_rank);

// Removes the variables by which a launcher around this process tells it its own rank: they are not those of the ranks to start.
void forget_other_launchers();

struct StartedRank {
  std::filesystem::path launch_file;
  std::string job, socket;
  bool resumes = false;
};

// The process of a rank: dies with its parent, reports to the supervisor, takes its cores, and becomes the command of the rank.
// Returns only by an exception.
[[noreturn]] void become_rank(const StartedRank& started);

}  // namespace trireme
