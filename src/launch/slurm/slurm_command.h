// Slurm's own commands, each with a time limit, so that a scheduler that does not answer never holds a launch up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/subprocess.h"

namespace trireme {

constexpr int64_t kSlurmSeconds = 15;  // longer than MessageTimeout of most sites
constexpr int kSlurmTimedOut = 124;    // its status then

// Runs `words` for at most `seconds`. Failure if the program cannot be started.
CommandOutput run_slurm(const std::vector<std::string>& words, int64_t seconds = kSlurmSeconds);

// The first line of what a command complained about, without the name of the program: for error lines.
std::string complaint_of(const CommandOutput& result);

// Puts a job back into the queue. Returns an empty text, or why Slurm refuses.
std::string requeue_job(const std::string& id);
// Slurm keeps a requeued job for two minutes before it may start. Ends that wait of a job that is back in the queue; only what is
// not part of the job can do it.
void start_requeued_job(const std::string& id);

}  // namespace trireme
