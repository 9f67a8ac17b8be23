#include "train/agreement.h"

#include <numeric>
#include <type_traits>

namespace trireme {

static_assert(std::is_trivially_copyable_v<StepVote>);  // votes travel as bytes

int64_t total_targets(const std::vector<StepVote>& votes) {
  int64_t total = 0;
  for (const StepVote& vote : votes) total += vote.targets;
  return total;
}

Agreement::Agreement(World& world) : rank_(world.rank()), votes_(static_cast<size_t>(world.size())) {
  if (world.size() == 1) return;
  std::vector<int> ranks(votes_.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  everybody_ = std::make_unique<HostGroup>(GroupKind::agreement, std::move(ranks), world.transport(), world.progress());
}

const std::vector<StepVote>& Agreement::exchange(const StepVote& mine) {
  votes_[static_cast<size_t>(rank_)] = mine;
  if (everybody_ == nullptr) return votes_;
  const Tensor all{votes_.data(), DType::u8, {std::ssize(votes_), int64_t{sizeof(StepVote)}}, Device::host};
  everybody_->all_gather(kCompute, all.rows(rank_, 1), all);
  return votes_;
}

}  // namespace trireme
