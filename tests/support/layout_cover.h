// A pairwise cover of the layouts: few of them, in which any two choices that can stand together do so at least once.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "support/layouts.h"

namespace trireme {

// One choice for each factor, as an index into its values.
enum Factor : size_t { kModel, kTp, kSp, kPp, kVp, kDp, kCp, kRecompute, kSchedule, kZero, kOverlap, kPrecision, kFactors };
using Choices = std::array<int, kFactors>;

constexpr int kValues[kFactors] = {3, 3, 2, 3, 3, 3, 2, 3, 3, 3, 3, 2};
constexpr int kTpSizes[] = {1, 2, 4}, kPpSizes[] = {1, 2, 4}, kDpSizes[] = {1, 2, 4};
constexpr int kMostRanks = 16;

inline MeshShape shape_of(const Choices& c) {
  return {.tp = kTpSizes[c[kTp]], .cp = c[kCp] + 1, .dp = kDpSizes[c[kDp]], .pp = kPpSizes[c[kPp]]};
}

inline bool is_possible(const Choices& c) {
  const MeshShape shape = shape_of(c);
  if (shape.size() > kMostRanks) return false;
  if (c[kSp] == 1 && shape.tp == 1) return false;
  if (c[kVp] > 0 && (shape.pp == 1 || c[kSchedule] != 0)) return false;
  if (c[kZero] == 2 && c[kSchedule] == 2) return false;
  return true;
}

inline Layout layout_of(const Choices& c) {
  constexpr ModelSettings (*kModels[])() = {small_gpt3, small_neox, small_llama};
  constexpr const char* kNames[] = {"gpt3", "neox", "llama"};
  constexpr const char *kRecomputes[] = {"", "_selective", "_full"}, *kSchedules[] = {"", "_gpipe", "_zb"},
                       *kZeros[] = {"", "_zero", "_fsdp"};
  constexpr const char* kOverlaps[] = {"", "_messages", "_overlapped"};
  const MeshShape shape = shape_of(c);
  ModelSettings model = kModels[c[kModel]]();
  model.sequence_parallel = c[kSp] == 1;
  model.virtual_pipeline_model_parallel_size = c[kVp] + 1;
  model.num_layers = std::max<int64_t>(2, shape.pp * model.virtual_pipeline_model_parallel_size);
  model.global_batch_size = 4 * shape.dp;
  model.activations_checkpoint_granularity = static_cast<RecomputeGranularity>(c[kRecompute]);
  model.pipeline_schedule = static_cast<PipelineSchedule>(c[kSchedule]);
  if (c[kZero] == 1) model.optim.name = Optimizer::distributed_fused_adam;
  model.fsdp = c[kZero] == 2;
  // Nothing overlapped and messages in batches; messages one by one; everything overlapped.
  model.batch_p2p_comm = c[kOverlap] == 0;
  model.overlap_p2p_comm = model.ub_tp_comm_overlap = c[kOverlap] == 2;
  model.optim.overlap_grad_sync = model.optim.overlap_param_sync = c[kOverlap] == 2;
  const Precision precision = c[kPrecision] == 0 ? Precision::f32 : Precision::f16;
  model.loss_scale.init_scale = 4096;  // none of the few steps is skipped
  return layout_of(fmt::format("{}_tp{}{}_pp{}_vp{}_dp{}_cp{}{}{}{}{}{}", kNames[c[kModel]], shape.tp, c[kSp] == 1 ? "_sp" : "",
                               shape.pp, c[kVp] + 1, shape.dp, shape.cp, kRecomputes[c[kRecompute]], kSchedules[c[kSchedule]],
                               kZeros[c[kZero]], kOverlaps[c[kOverlap]], precision == Precision::f16 ? "_fp16" : ""),
                   model, shape, precision);
}

// In half precision the differences of rounding grow from step to step, and in the deep models beyond what says anything.
inline int steps_for(const Layout& layout) { return layout.precision == Precision::f32 ? 5 : 2; }

// A bit for each choice of each factor, three to a factor.
inline uint64_t bits_of(const Choices& c) {
  uint64_t bits = 0;
  for (size_t factor = 0; factor < kFactors; ++factor) bits |= uint64_t{1} << (3 * factor + static_cast<size_t>(c[factor]));
  return bits;
}

// Pairs of choices that are still to be covered: for each choice, the bits of those it has not stood together with.
class OpenPairs {
 public:
  explicit OpenPairs(const std::vector<Choices>& all) {
    for (const Choices& c : all) for_each(bits_of(c), [](uint64_t& open, uint64_t bits) { open |= bits; });
  }
  bool empty() const { return std::ranges::count(open_, 0U) == std::ssize(open_); }
  int count(uint64_t choices) {
    int pairs = 0;
    for_each(choices, [&](uint64_t open, uint64_t bits) { pairs += std::popcount(open & bits); });
    return pairs;
  }
  void cover(uint64_t choices) {
    for_each(choices, [](uint64_t& open, uint64_t bits) { open &= ~bits; });
  }

 private:
  // With what is open for each of the choices, and those of the factors after it.
  template <class Visit>
  void for_each(uint64_t choices, const Visit& visit) {
    for (uint64_t left = choices; left != 0;) {
      const int choice = std::countr_zero(left);
      left &= left - 1;
      visit(open_[static_cast<size_t>(choice)], left);
    }
  }

  std::array<uint64_t, 3 * kFactors> open_{};
};

inline std::vector<Choices> all_choices() {
  std::vector<Choices> all;
  for (Choices c{}; c[0] < kValues[0];) {
    if (is_possible(c)) all.push_back(c);
    size_t factor = kFactors;
    while (factor-- > 0) {
      if (++c[factor] < kValues[factor] || factor == 0) break;
      c[factor] = 0;
    }
  }
  return all;
}

// Always the choices that cover the most pairs not yet covered; of those with as many, the fewest ranks.
inline std::vector<Choices> cover_of(const std::vector<Choices>& all) {
  OpenPairs open(all);
  std::vector<Choices> cover;
  while (!open.empty()) {
    const Choices* best = nullptr;
    int64_t best_gain = std::numeric_limits<int64_t>::min();
    for (const Choices& c : all) {
      const int64_t gain = 100 * int64_t{open.count(bits_of(c))} - shape_of(c).size();
      if (gain > best_gain) best = &c, best_gain = gain;
    }
    open.cover(bits_of(*best));
    cover.push_back(*best);
  }
  return cover;
}

// Twice over: what one layout of a pair hides, another may show.
inline std::vector<Choices> pairwise_cover() {
  std::vector<Choices> all = all_choices(), cover = cover_of(all);
  std::erase_if(all, [&](const Choices& c) { return std::ranges::count(cover, c) > 0; });
  for (const Choices& c : cover_of(all)) cover.push_back(c);
  return cover;
}

}  // namespace trireme
