#include "train/agreement.h"

#include <numeric>

namespace trireme {
namespace {

constexpr int64_t kValues = sizeof(StepVote) / sizeof(double);

}  // namespace

int64_t total_targets(const std::vector<StepVote>& votes) {
  double total = 0;  // exact: far below 2^53
  for (const StepVote& vote : votes) total += vote.targets;
  return static_cast<int64_t>(total);
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
  const Tensor all{votes_.data(), DType::f64, {std::ssize(votes_), kValues}, Device::host};
  everybody_->all_gather(kCompute, all.rows(rank_, 1), all);
  return votes_;
}

}  // namespace trireme
