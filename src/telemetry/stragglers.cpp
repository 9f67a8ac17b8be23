#include "telemetry/stragglers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/median.h"
#include "base/units.h"

namespace trireme {
namespace {

constexpr double kShown = 0.02;      // a block that shows that a rank is slow
constexpr double kRecovered = 0.03;  // less than kLeastExcess, so that a rank at the limit is not named again and again

}  // namespace

std::string StragglerFinding::text() const {
  if (kind == Kind::recovered) return fmt::format("is as fast as its peers of stage {} again", stage);
  return fmt::format(
      "is slow: {} of computing per step, {:.0f}% more than its peers of stage {}, over {} steps; {:.0f}% of every "
      "step is lost by it",
      format_seconds(seconds), excess * 100, stage, steps, cost * 100);
}

StragglerWatch::StragglerWatch(std::vector<int> stage_of_rank) {
  for (const int stage : stage_of_rank) ranks_.push_back({.stage = stage});
}

double StragglerWatch::peer_seconds(size_t rank) const {
  std::vector<double> peers;
  for (size_t other = 0; other < ranks_.size(); ++other)
    if (other != rank && ranks_[other].stage == ranks_[rank].stage) peers.push_back(ranks_[other].block_seconds);
  return peers.empty() ? 0 : median(peers);
}

std::vector<StragglerFinding> StragglerWatch::step(std::span<const double> compute, double step_seconds) {
  CHECK_EQ(compute.size(), ranks_.size());
  std::vector<StragglerFinding> found;
  if (std::ranges::any_of(compute, [](double seconds) { return !(seconds > 0); })) return found;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].block_seconds += compute[rank];
  block_step_seconds_ += step_seconds;
  if (++steps_in_block_ >= kBlockSteps && block_step_seconds_ >= kBlockSeconds) end_block(found);
  return found;
}

void StragglerWatch::end_block(std::vector<StragglerFinding>& found) {
  const size_t slot = static_cast<size_t>(blocks_++) % kBlocks;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    const double peers = peer_seconds(i);
    if (peers == 0) continue;  // none
    rank.excesses[slot] = rank.block_seconds / peers - 1;
    if (blocks_ < static_cast<int64_t>(kBlocks)) continue;
    const double excess = median(rank.excesses);
    const auto shown = static_cast<size_t>(std::ranges::count_if(rank.excesses, [](double one) { return one >= kShown; }));
    const double cost = std::clamp(peers * excess / block_step_seconds_, 0.0, 1.0);
    const bool is_slow = excess >= kLeastExcess && shown >= kBlocksThatShowIt && cost >= kLeastCost;
    if (rank.is_named ? excess > kRecovered : !is_slow) continue;
    rank.is_named = !rank.is_named;
    const auto steps = static_cast<double>(steps_in_block_);
    found.push_back({.kind = rank.is_named ? StragglerFinding::Kind::slow : StragglerFinding::Kind::recovered,
                     .rank = static_cast<int>(i),
                     .stage = rank.stage,
                     .excess = excess,
                     .seconds = peers * (1 + excess) / steps,
                     .peer_seconds = peers / steps,
                     .cost = cost,
                     .steps = static_cast<int64_t>(kBlocks) * steps_in_block_});
  }
  for (Rank& rank : ranks_) rank.block_seconds = 0;
  steps_in_block_ = 0;
  block_step_seconds_ = 0;
}

}  // namespace trireme
