// Which share of the work is this process's, when several prepare one dataset.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace trireme::prepare {

struct Rank {
  int64_t rank = 0, ranks = 1;
  std::string source;  // what said so: "--rank", "SLURM_ARRAY_TASK_ID"; empty: nothing did

  bool operator==(const Rank&) const = default;
};

using Environment = std::function<std::optional<std::string>(const char*)>;
Environment process_environment();

// From the two options (-1: not given), else from a job array or a parallel start: Slurm's array and srun, PBS, Grid Engine, AWS
// Batch, Kubernetes, Open MPI. Where the environment has an index but not how many there are, --ranks alone says it.
Rank find_rank(int64_t rank, int64_t ranks, const Environment& environment);

}  // namespace trireme::prepare
