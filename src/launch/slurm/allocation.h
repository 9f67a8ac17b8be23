// The nodes that a job has: those of its run, spares, and those that are lost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/subprocess.h"

namespace trireme {

class Allocation {
 public:
  // `nodes` in Slurm's notation, as in SLURM_JOB_NODELIST.
  Allocation(std::string job, const std::string& nodes);

  // The first `count` nodes that are not lost; fewer if there are not so many.
  std::vector<std::string> choose(int64_t count) const;
  // "n5", for messages: those that are neither lost nor among `used`.
  std::vector<std::string> spares(const std::vector<std::string>& used) const;

  // Drops a node; returns false if it was dropped before.
  bool drop(const std::string& node);
  // Asks Slurm and, with a step that starts nothing, the nodes themselves. Returns the nodes that are newly lost, each with why.
  // Slurm takes minutes to call a node down; a node that cannot start a step is lost at once.
  std::vector<std::string> find_lost();

 private:
  std::vector<std::string> ask_scheduler();
  std::vector<std::string> ask_nodes();

  std::string job_;
  std::vector<std::string> nodes_;  // not lost, in the order of the allocation
};

// The nodes that a step could not be started on, from what srun says.
std::vector<std::string> unreachable_nodes(const std::string& srun_errors);

}  // namespace trireme
