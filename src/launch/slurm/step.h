// One srun: runs it, writes what its ranks print to their logs, and says how it ended.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "launch/slurm/srun_messages.h"

namespace trireme {

struct StepEnd {
  int status = 0;  // of the rank that failed first, else of srun
  SrunMessages messages;
};

// Called several times a second with whether a rank has failed; returns a signal for srun, or 0.
using StepWatch = std::function<int(bool has_failed)>;
using LineWatch = std::function<void(const LabelledLine&)>;

// Runs `words`, an srun --label, until it ends. Lines go to stdout, those of rank 0 as they are and others with their rank, and
// to rank-00003.log in `folder`; an empty folder: to stdout only. Failure if srun cannot be started. A log that cannot be written
// does not end the step.
StepEnd run_step(const std::vector<std::string>& words, const std::filesystem::path& folder, const StepWatch& watch,
                 const LineWatch& on_line = {});

// Starts a process in the background with no input and no output; returns its id.
pid_t start_in_background(const std::vector<std::string>& words);

}  // namespace trireme
