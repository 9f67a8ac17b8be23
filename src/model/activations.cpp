#include "model/activations.h"

#include <algorithm>

namespace trireme {
namespace {

// Which layers are recomputed, and in which groups.
std::vector<ActivationTable::Layer> plan_recompute(const ModelSettings& model, int64_t L) {
  const int64_t k = model.activations_checkpoint_num_layers;
  const bool full = model.activations_checkpoint_granularity == RecomputeGranularity::full;
  const bool uniform = model.activations_checkpoint_method == RecomputeMethod::uniform;
  std::vector<ActivationTable::Layer> plan;
  for (int64_t layer = 0; layer < L; ++layer) {
    const bool recomputed = full && (uniform || layer < k);
    const int64_t group_begin = recomputed && uniform ? layer / k * k : layer;
    plan.push_back({.group_begin = group_begin, .recomputed = recomputed});
  }
  return plan;
}

int64_t largest_group(const std::vector<ActivationTable::Layer>& plan) {
  int64_t largest = 0;
  for (size_t layer = 0; layer < plan.size(); ++layer)
    if (plan[layer].recomputed) largest = std::max(largest, static_cast<int64_t>(layer) - plan[layer].group_begin + 1);
  return largest;
}

}  // namespace

BlockActivations make_block_activations(const ModelSettings& model, const Dims& d, DType dtype, Arena& arena,
                                        const RebuiltActivations& shared) {
  const int64_t N = d.N();
  const bool has_mean = model.normalization != Normalization::rmsnorm;
  const auto rows = [&](int64_t width) { return arena.take({N, width}, dtype); };
  const auto statistic = [&] { return arena.take({N}, DType::f32); };
  BlockActivations a;
  a.sum1 = rows(d.C);
  a.normed1 = shared.normed1 ? shared.normed1 : rows(d.C);
  if (has_mean) a.mean1 = statistic();
  a.rstd1 = statistic();
  a.qkv = arena.take({d.B, d.T, d.H + 2 * d.G, d.D}, dtype);
  a.attended = arena.take({d.B, d.T, d.H, d.D}, dtype);
  a.lse = arena.take({d.B, d.H, d.T}, DType::f32);
  if (!model.parallel_residual) a.sum2 = rows(d.C);
  a.normed2 = shared.normed2 ? shared.normed2 : rows(d.C);
  if (has_mean) a.mean2 = statistic();
  a.rstd2 = statistic();
  a.up = rows(is_gated(model.activation) ? 2 * d.F : d.F);
  a.activated = shared.activated ? shared.activated : rows(d.F);
  return a;
}

BlockWorkspace make_block_workspace(const ModelSettings& model, const Dims& d, DType dtype, Backward backward, Arena& arena) {
  const auto rows = [&](int64_t width) { return arena.take({d.N(), width}, dtype); };
  BlockWorkspace w;
  w.branch1 = rows(d.C);
  w.branch2 = rows(d.C);
  if (backward == Backward::no) return w;
  w.d_sum = rows(d.C);
  const bool dropout = model.hidden_dropout > 0;
  w.d_branch1 = dropout ? rows(d.C) : w.d_sum;
  w.d_branch2 = dropout && model.parallel_residual ? rows(d.C) : w.d_branch1;
  w.d_normed1 = rows(d.C);
  w.d_normed2 = model.parallel_residual ? rows(d.C) : w.d_normed1;
  w.d_qkv = arena.take({d.B, d.T, d.H + 2 * d.G, d.D}, dtype);
  w.d_attended = arena.take({d.B, d.T, d.H, d.D}, dtype);
  w.d_up = rows(is_gated(model.activation) ? 2 * d.F : d.F);
  if (is_gated(model.activation)) w.d_activated = rows(d.F);
  return w;
}

ActivationTable::ActivationTable(const ModelSettings& model, const Dims& dims, DType dtype, int64_t slots, Arena& activations,
                                 Arena& scratch)
    : layers_(dims.L),
      plan_(plan_recompute(model, dims.L)),
      workspace_(make_block_workspace(model, dims, dtype, Backward::yes, scratch)),
      rebuilds_(model.activations_checkpoint_granularity == RecomputeGranularity::selective) {
  RebuiltActivations shared;
  if (rebuilds_)
    shared = {.normed1 = scratch.take({dims.N(), dims.C}, dtype),
              .normed2 = scratch.take({dims.N(), dims.C}, dtype),
              .activated = scratch.take({dims.N(), dims.F}, dtype)};
  std::vector<BlockActivations> pool;  // of the recompute group that is being worked on
  for (int64_t i = 0; i < largest_group(plan_); ++i) pool.push_back(make_block_activations(model, dims, dtype, scratch));
  for (int64_t slot = 0; slot < slots; ++slot)
    for (int64_t layer = 0; layer < layers_; ++layer) {
      if (!plan(layer).recomputed) {
        blocks_.push_back(make_block_activations(model, dims, dtype, activations, shared));
        continue;
      }
      const int64_t place = layer - plan(layer).group_begin;
      blocks_.push_back(pool[static_cast<size_t>(place)]);
      if (place == 0) blocks_.back().sum1 = activations.take({dims.N(), dims.C}, dtype);  // the group's input is all it keeps
    }
}

}  // namespace trireme
