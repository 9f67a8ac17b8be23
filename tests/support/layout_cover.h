// A pairwise cover of the layouts: few of them, in which any two choices that can stand together do so at least once.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "support/layouts.h"

namespace trireme {

// One choice for each factor, as an index into its values.
enum Factor : size_t { kModel, kTp, kSp, kPp, kVp, kDp, kCp, kRecompute, kSchedule, kZero, kOverlap, kFactors };
using Choices = std::array<int, kFactors>;

constexpr int kValues[kFactors] = {3, 3, 2, 3, 3, 3, 2, 3, 3, 2, 3};
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
  return true;
}

inline Layout layout_of(const Choices& c) {
  constexpr ModelSettings (*kModels[])() = {small_gpt3, small_neox, small_llama};
  constexpr const char* kNames[] = {"gpt3", "neox", "llama"};
  constexpr const char *kRecomputes[] = {"", "_selective", "_full"}, *kSchedules[] = {"", "_gpipe", "_zb"};
  constexpr const char* kOverlaps[] = {"", "_messages", "_overlapped"};
  const MeshShape shape = shape_of(c);
  ModelSettings model = kModels[c[kModel]]();
  model.sequence_parallel = c[kSp] == 1;
  model.virtual_pipeline_model_parallel_size = c[kVp] + 1;
  model.num_layers = std::max<int64_t>(2, shape.pp * model.virtual_pipeline_model_parallel_size);
  model.global_batch_size = 4 * shape.dp;
  model.activations_checkpoint_granularity = static_cast<RecomputeGranularity>(c[kRecompute]);
  model.pipeline_schedule = static_cast<PipelineSchedule>(c[kSchedule]);
  if (c[kZero] == 1) model.optim.name = "distributed_fused_adam";
  // Nothing overlapped and messages in batches; messages one by one; everything overlapped.
  model.batch_p2p_comm = c[kOverlap] == 0;
  model.overlap_p2p_comm = model.ub_tp_comm_overlap = c[kOverlap] == 2;
  model.optim.overlap_grad_sync = model.optim.overlap_param_sync = c[kOverlap] == 2;
  return layout_of(fmt::format("{}_tp{}{}_pp{}_vp{}_dp{}_cp{}{}{}{}{}", kNames[c[kModel]], shape.tp, c[kSp] == 1 ? "_sp" : "",
                               shape.pp, c[kVp] + 1, shape.dp, shape.cp, kRecomputes[c[kRecompute]], kSchedules[c[kSchedule]],
                               c[kZero] == 1 ? "_zero" : "", kOverlaps[c[kOverlap]]),
                   model, shape);
}

using Pair = std::array<size_t, 4>;  // two factors and their choices

inline std::vector<Pair> pairs_of(const Choices& c) {
  std::vector<Pair> pairs;
  for (size_t a = 0; a < kFactors; ++a)
    for (size_t b = a + 1; b < kFactors; ++b) pairs.push_back({a, static_cast<size_t>(c[a]), b, static_cast<size_t>(c[b])});
  return pairs;
}

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
  std::set<Pair> open;
  for (const Choices& c : all)
    for (const Pair& pair : pairs_of(c)) open.insert(pair);
  std::vector<Choices> cover;
  while (!open.empty()) {
    const Choices* best = nullptr;
    int64_t best_gain = std::numeric_limits<int64_t>::min();
    for (const Choices& c : all) {
      int64_t gain = -shape_of(c).size();
      for (const Pair& pair : pairs_of(c)) gain += open.contains(pair) ? 100 : 0;
      if (gain > best_gain) best = &c, best_gain = gain;
    }
    for (const Pair& pair : pairs_of(*best)) open.erase(pair);
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
