// What the ranks of a run decide together. Before every step each says what it knows: how many targets its samples have, whether
// it was told to stop. All hear all of it, so that all draw the same conclusion.
#pragma once

#include <memory>
#include <vector>

#include "comm/host_group.h"
#include "comm/world.h"

namespace trireme {

struct StepVote {
  int64_t targets = 0;         // unmasked, of the samples that this rank counts
  int signal = 0;              // the number of the signal that asked it to stop; 0: none
  bool out_of_time = false;    // trainer.max_time is over
  double compute_seconds = 0;  // of the last step, without waits; 0: not known
  uint32_t checksum = 0;       // of the weights, where replicas are compared
  bool operator==(const StepVote&) const = default;
};

int64_t total_targets(const std::vector<StepVote>& votes);

class Agreement {
 public:
  explicit Agreement(World& world);

  // The votes of all ranks, in their order; valid until the next call.
  const std::vector<StepVote>& exchange(const StepVote& mine);

 private:
  int rank_ = 0;
  std::unique_ptr<HostGroup> everybody_;  // none when alone
  std::vector<StepVote> votes_;
};

}  // namespace trireme
