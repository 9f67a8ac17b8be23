#include "telemetry/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace trireme {
namespace {

constexpr double kSlow = 0.0953;      // log 1.1
constexpr double kMostExcess = 0.5;   // of x that counts: a machine that stands still says nothing about a rank
constexpr double kFirstNoise = 0.03;  // standard deviation of x before any block
constexpr double kFirstVariance = kFirstNoise * kFirstNoise;
constexpr int64_t kGroupBlocks = 8;  // about as many as it takes to name a rank
constexpr double kLeastVariance = 1e-6;

}  // namespace

std::string StragglerFinding::text() const {
  if (kind == Kind::recovered) return fmt::format("is as fast as its peers of stage {} again", stage);
  return fmt::format(
      "is slow: {} of computing per step, {:.0f}% more than its peers of stage {}, over {} steps; {:.0f}% of every "
      "step is lost by it",
      format_seconds(seconds), excess * 100, stage, steps, cost * 100);
}

void StragglerWatch::Spread::add(std::span<const double> values) {
  if (++added_ == 1) {
    usual_.assign(values.begin(), values.end());
    return;
  }
  double squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double away = values[i] - usual_[i];
    squares += away * away;
    usual_[i] += away / static_cast<double>(std::min(added_, usual_count_));
  }
  const auto count = static_cast<double>(std::min(counts_as_ + added_, kept_));
  variance_ += (squares / static_cast<double>(values.size()) - variance_) / count;
}

StragglerWatch::StragglerWatch(const std::vector<int>& stage_of_rank)
    : block_spread_(kFirstVariance, 8, 100, 16),
      group_spread_(kFirstVariance / kGroupBlocks, 2, 16, 8),
      group_(stage_of_rank.size()) {
  for (const int stage : stage_of_rank) ranks_.push_back({.stage = stage});
}

std::vector<double> StragglerWatch::peer_seconds() const {
  std::vector<size_t> order(ranks_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(ranks_[i].stage, ranks_[i].block_seconds); });
  std::vector<double> peers(ranks_.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && ranks_[order[end]].stage == ranks_[order[begin]].stage) ++end;
    for (size_t place = begin; end - begin > 1 && place < end; ++place) {
      const auto other = [&](size_t i) { return ranks_[order[begin + i + (begin + i < place ? 0 : 1)]].block_seconds; };
      const size_t others = end - begin - 1;
      peers[order[place]] = (other((others - 1) / 2) + other(others / 2)) / 2;
    }
  }
  return peers;
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

void StragglerWatch::note_noise(std::span<const double> excess) {
  block_spread_.add(excess);
  for (size_t i = 0; i < excess.size(); ++i) group_[i] += excess[i] / kGroupBlocks;
  if (blocks_ % kGroupBlocks != 0) return;
  group_spread_.add(group_);
  std::ranges::fill(group_, 0);
}

double StragglerWatch::variance() const {
  return std::max({block_spread_.variance(), kGroupBlocks * group_spread_.variance(), kLeastVariance});
}

void StragglerWatch::gather_evidence(Rank& rank, double peers, double excess) {
  constexpr double kMost = kEvidence / kBlocks;
  const double ratio = kSlow * (excess - kSlow / 2) / variance();
  const double more = std::clamp(rank.is_named ? -ratio : ratio, -kMost, kMost);
  const double evidence = std::min(rank.evidence + more, kEvidence);
  if (evidence <= 0) {
    rank.evidence = rank.seconds = rank.peer_seconds = rank.step_seconds = 0;
    rank.steps = 0;
    return;
  }
  rank.evidence = evidence;
  rank.steps += steps_in_block_;
  rank.seconds += rank.block_seconds;
  rank.peer_seconds += peers;
  rank.step_seconds += block_step_seconds_;
}

bool StragglerWatch::has_changed(const Rank& rank) const {
  constexpr double kRounding = 1e-9;  // of a sum of kBlocks parts
  if (rank.evidence < kEvidence - kRounding) return false;
  return rank.is_named || rank.seconds - rank.peer_seconds >= kLeastCost * rank.step_seconds;
}

StragglerFinding StragglerWatch::change(size_t index) {
  Rank& rank = ranks_[index];
  rank.is_named = !rank.is_named;
  rank.evidence = 0;
  const auto steps = static_cast<double>(std::exchange(rank.steps, 0));
  const double seconds = std::exchange(rank.seconds, 0), peers = std::exchange(rank.peer_seconds, 0);
  return {.kind = rank.is_named ? StragglerFinding::Kind::slow : StragglerFinding::Kind::recovered,
          .rank = static_cast<int>(index),
          .stage = rank.stage,
          .excess = seconds / peers - 1,
          .seconds = seconds / steps,
          .peer_seconds = peers / steps,
          .cost = std::clamp((seconds - peers) / std::exchange(rank.step_seconds, 0), 0.0, 1.0),
          .steps = static_cast<int64_t>(steps)};
}

void StragglerWatch::end_block(std::vector<StragglerFinding>& found) {
  ++blocks_;
  const std::vector<double> peers = peer_seconds();
  std::vector<double> excess;
  for (size_t i = 0; i < ranks_.size(); ++i)
    excess.push_back(peers[i] == 0 ? 0 : std::clamp(std::log(ranks_[i].block_seconds / peers[i]), -kMostExcess, kMostExcess));
  note_noise(excess);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (peers[i] == 0) continue;
    gather_evidence(ranks_[i], peers[i], excess[i]);
    if (has_changed(ranks_[i])) found.push_back(change(i));
  }
  for (Rank& rank : ranks_) rank.block_seconds = 0;
  steps_in_block_ = 0;
  block_step_seconds_ = 0;
}

}  // namespace trireme
