// Determines this process's share of the work if several processes prepare one dataset.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace trireme::prepare {

struct Rank {
  int64_t rank = 0, ranks = 1;
  std::string source;  // the origin: "--rank", "SLURM_ARRAY_TASK_ID"; empty: none

  bool operator==(const Rank&) const = default;
};

using Environment = std::function<std::optional<std::string>(const char*)>;
Environment process_environment();

// Uses the two options (-1: not given), or else the environment of a job array or parallel launch: Slurm's array and srun, PBS,
// Grid Engine, AWS Batch, Kubernetes, Open MPI. If the environment has an index but no count, --ranks must give it.
Rank find_rank(int64_t rank, int64_t ranks, const Environment& environment);

}  // namespace trireme::prepare
