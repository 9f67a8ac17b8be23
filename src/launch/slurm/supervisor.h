// The batch script of a job ends in this: it starts attempts in the allocation until the run is done, gives up, or goes back to
// the queue.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct SupervisedJob {
  std::filesystem::path folder;      // logs, attempts.json and end.json
  std::filesystem::path run_folder;  // of a training; empty: one attempt, and Slurm does what else there is to do
  std::optional<int64_t> task;       // of an array
  int64_t nodes = 1;                 // of the run; the allocation may have more
  int64_t max_restarts = 0;          // attempts without a new checkpoint until it gives up with kDoNotRetry
  int64_t save_seconds = 0;          // that ranks get to save before the time limit; 0: as long as they take
  size_t check_words = 0;            // not 0: nodes are checked first, by srun with so many of the first words of `step`
  bool has_spares = false, may_requeue = false, resume = false;
  std::vector<std::string> step;  // srun, its options and the command of the ranks
};

// Returns the exit status of the batch script.
int supervise_slurm_job(const SupervisedJob& job);

struct SlurmDeputy {
  std::string job, host;  // the job, and the node of its supervisor
  bool may_requeue = false;
  int64_t seconds = 10;  // between questions
};

// Runs on another node of a job with spares. Slurm lets such a job live when it loses a node, even that of its batch script:
// then nothing would start attempts any more, so the deputy puts the job back into the queue, or cancels it.
int watch_supervisor_node(const SlurmDeputy& deputy);

}  // namespace trireme
