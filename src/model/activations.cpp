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

// An input of a linear layer, [N,width]. Its FP8 values are read at once, in forward; only the transposed copy is kept.
Operand with_input_copies(Operand input, int64_t N, int64_t width, const Fp8State* fp8, const SharedActivations& shared,
                          const Tensor& transposed, Arena& arena) {
  if (fp8 == nullptr) return input;
  input.fp8.values = shared.fp8_values.flat_range(0, {N, width});
  input.fp8.transposed = transposed ? transposed : arena.take({width, N}, fp8->input_dtype());
  return input;
}

// An output gradient, [N,width].
Operand with_gradient_copies(Operand gradient, int64_t N, int64_t width, const Fp8State* fp8, Arena& arena) {
  if (fp8 == nullptr) return gradient;
  gradient.fp8.values = arena.take({N, width}, fp8->output_grad_dtype());
  gradient.fp8.transposed = arena.take({width, N}, fp8->output_grad_dtype());
  gradient.fp8.column_sums = arena.take({ceil_div(N, Fp8Copy::kSumRows), width}, DType::f32);
  return gradient;
}

// The same memory with the scales of block i.
BlockActivations of_block(BlockActivations a, const Fp8State* fp8, int64_t i) {
  if (fp8 == nullptr) return a;
  fp8->assign_input(i, BlockLinear::qkv, a.normed1.fp8);
  fp8->assign_input(i, BlockLinear::out, a.attended.fp8);
  fp8->assign_input(i, BlockLinear::up, a.normed2.fp8);
  fp8->assign_input(i, BlockLinear::down, a.activated.fp8);
  return a;
}
BlockWorkspace of_block(const ModelSettings& model, BlockWorkspace w, const Fp8State* fp8, int64_t i) {
  if (fp8 == nullptr) return w;
  // With a parallel residual and no dropout both branches have the same gradient, and it has one copy.
  const bool one_gradient = model.parallel_residual && model.hidden_dropout == 0;
  fp8->assign_output_grad(i, BlockLinear::qkv, w.d_qkv.fp8);
  fp8->assign_output_grad(i, BlockLinear::out, w.d_attention_branch.fp8);
  fp8->assign_output_grad(i, BlockLinear::up, w.d_up.fp8);
  fp8->assign_output_grad(i, one_gradient ? BlockLinear::out : BlockLinear::down, w.d_mlp_branch.fp8);
  return w;
}

SharedActivations make_shared_activations(const ModelSettings& model, const Dims& d, DType dtype, const Fp8State* fp8,
                                          const BlockWorkspace& w, Arena& scratch) {
  const int64_t N = d.N();
  const bool rebuilds = model.activations_checkpoint_granularity == RecomputeGranularity::selective;
  SharedActivations shared;
  if (fp8 == nullptr) {
    if (rebuilds)
      shared = {.normed1 = scratch.take({N, d.C}, dtype),
                .normed2 = scratch.take({N, d.C}, dtype),
                .activated = scratch.take({N, d.F}, dtype)};
    return shared;
  }
  // Beside their copies these are only worked in, in forward; the gradients whose memory it is come later.
  shared.normed1 = shared.normed2 = w.d_normed1;
  shared.activated = w.d_up.Tensor::reshaped({w.d_up.count()}).flat_range(0, {N, d.F});
  shared.fp8_values = scratch.take({N * std::max({d.C, d.F, d.H * d.D})}, fp8->input_dtype());
  if (rebuilds) {
    shared.normed1_transposed = scratch.take({d.C, N}, fp8->input_dtype());
    shared.normed2_transposed = scratch.take({d.C, N}, fp8->input_dtype());
    shared.activated_transposed = scratch.take({d.F, N}, fp8->input_dtype());
  }
  return shared;
}

}  // namespace

BlockActivations make_block_activations(const ModelSettings& model, const Dims& d, DType dtype, Arena& arena,
                                        const SharedActivations& shared, const Fp8State* fp8) {
  const int64_t N = d.N();
  const bool has_mean = model.normalization != Normalization::rmsnorm;
  const auto rows = [&](int64_t width) { return arena.take({N, width}, dtype); };
  const auto statistic = [&] { return arena.take({N}, DType::f32); };
  const auto input = [&](Operand made, int64_t width, const Tensor& transposed) {
    return with_input_copies(made, N, width, fp8, shared, transposed, arena);
  };
  const Wide unless_fp8 = fp8 != nullptr ? Wide::scratch : Wide::kept;
  BlockActivations a;
  a.sum1 = rows(d.C);
  a.normed1 = input({shared.normed1 ? shared.normed1 : rows(d.C), {}, unless_fp8}, d.C, shared.normed1_transposed);
  if (has_mean) a.mean1 = statistic();
  a.rstd1 = statistic();
  a.qkv = arena.take({d.B, d.T, d.H + 2 * d.G, d.D}, dtype);
  a.attended = input(arena.take({d.B, d.T, d.H, d.D}, dtype), d.H * d.D, {});
  a.lse = arena.take({d.B, d.H, d.T}, DType::f32);
  if (!model.parallel_residual) a.sum2 = rows(d.C);
  a.normed2 = input({shared.normed2 ? shared.normed2 : rows(d.C), {}, unless_fp8}, d.C, shared.normed2_transposed);
  if (has_mean) a.mean2 = statistic();
  a.rstd2 = statistic();
  a.up = rows(is_gated(model.activation) ? 2 * d.F : d.F);
  a.activated = input({shared.activated ? shared.activated : rows(d.F), {}, unless_fp8}, d.F, shared.activated_transposed);
  return a;
}

BlockWorkspace make_block_workspace(const ModelSettings& model, const Dims& d, DType dtype, Backward backward, Arena& arena,
                                    const Fp8State* fp8) {
  const auto rows = [&](int64_t width) { return arena.take({d.N(), width}, dtype); };
  const auto gradient = [&](Operand made, int64_t width) { return with_gradient_copies(made, d.N(), width, fp8, arena); };
  const Wide unless_fp8 = fp8 != nullptr ? Wide::scratch : Wide::kept;
  const int64_t up_width = is_gated(model.activation) ? 2 * d.F : d.F;
  BlockWorkspace w;
  w.branch1 = rows(d.C);
  w.branch2 = rows(d.C);
  if (backward == Backward::no) return w;
  w.d_sum = rows(d.C);
  const bool dropout = model.hidden_dropout > 0;
  w.d_attention_branch = gradient(dropout ? Operand(rows(d.C), {}, unless_fp8) : Operand(w.d_sum), d.C);
  w.d_mlp_branch = dropout && model.parallel_residual ? gradient({rows(d.C), {}, unless_fp8}, d.C) : w.d_attention_branch;
  w.d_normed1 = rows(d.C);
  w.d_normed2 = model.parallel_residual ? rows(d.C) : w.d_normed1;
  w.d_qkv = gradient({arena.take({d.B, d.T, d.H + 2 * d.G, d.D}, dtype), {}, unless_fp8}, d.qkv_width());
  w.d_attended = arena.take({d.B, d.T, d.H, d.D}, dtype);
  w.d_up = gradient({rows(up_width), {}, unless_fp8}, up_width);
  if (is_gated(model.activation)) w.d_activated = rows(d.F);
  return w;
}

ActivationTable::ActivationTable(const ModelSettings& model, const Dims& dims, DType dtype, const Fp8State* fp8, int64_t slots,
                                 Arena& activations, Arena& scratch)
    : layers_(dims.L),
      plan_(plan_recompute(model, dims.L)),
      rebuilds_(model.activations_checkpoint_granularity == RecomputeGranularity::selective) {
  const BlockWorkspace workspace = make_block_workspace(model, dims, dtype, Backward::yes, scratch, fp8);
  for (int64_t layer = 0; layer < layers_; ++layer) workspaces_.push_back(of_block(model, workspace, fp8, layer));
  const SharedActivations shared = make_shared_activations(model, dims, dtype, fp8, workspace, scratch);
  std::vector<BlockActivations> pool;  // of the recompute group that is being worked on
  for (int64_t i = 0; i < largest_group(plan_); ++i)
    pool.push_back(make_block_activations(model, dims, dtype, scratch, shared, fp8));
  for (int64_t slot = 0; slot < slots; ++slot)
    for (int64_t layer = 0; layer < layers_; ++layer) {
      if (!plan(layer).recomputed) {
        blocks_.push_back(of_block(make_block_activations(model, dims, dtype, activations, shared, fp8), fp8, layer));
        continue;
      }
      const int64_t place = layer - plan(layer).group_begin;
      blocks_.push_back(of_block(pool[static_cast<size_t>(place)], fp8, layer));
      if (place == 0) blocks_.back().sum1 = activations.take({dims.N(), dims.C}, dtype);  // the group's input is all it keeps
    }
}

}  // namespace trireme
