#include "model/block.h"

namespace trireme {
namespace {

struct NormTensors {
  Tensor weight, bias;
  Operand out;
  Tensor mean, rstd;
};

NormTensors norm1(const BlockParameters& weights, const BlockActivations& a) {
  return {weights.norm1_weight, weights.norm1_bias, a.normed1, a.mean1, a.rstd1};
}
NormTensors norm2(const BlockParameters& weights, const BlockActivations& a) {
  return {weights.norm2_weight, weights.norm2_bias, a.normed2, a.mean2, a.rstd2};
}

void add_and_norm(const Context& context, const PendingSum& in, Tensor sum, const NormTensors& norm) {
  context.backend.run(kCompute, ResidualNormForward{.kind = norm_kind(context.model.normalization),
                                                    .epsilon = static_cast<float>(context.model.layernorm_epsilon),
                                                    .residual = in.residual,
                                                    .branch = in.branch,
                                                    .branch2 = in.branch2,
                                                    .dropout = in.dropout,
                                                    .dropout2 = in.dropout2,
                                                    .weight = norm.weight,
                                                    .bias = norm.bias,
                                                    .sum = in.branch ? sum : Tensor{},
                                                    .out = norm.out,
                                                    .mean = norm.mean,
                                                    .rstd = norm.rstd});
}

}  // namespace

PendingSum block_output(const Context& context, int64_t layer, const BlockActivations& a, const BlockWorkspace& w) {
  if (context.model.parallel_residual)
    return {.residual = a.sum1,
            .branch = w.branch1,
            .branch2 = w.branch2,
            .dropout = context.attention_branch_dropout(layer),
            .dropout2 = context.mlp_branch_dropout(layer),
            .d_branch = w.d_attention_branch,
            .d_branch2 = w.d_mlp_branch};
  return {.residual = a.sum2, .branch = w.branch1, .dropout = context.mlp_branch_dropout(layer), .d_branch = w.d_mlp_branch};
}

// Without dropout a branch's gradient is d_sum itself, and nothing needs to be written for it.
NormGrads norm_grads(const Context& context, Tensor d_sum, const PendingSum& before) {
  if (!before.branch) return {.d_sum = d_sum};
  if (!context.hidden_dropout_active()) return {.d_sum = before.d_branch};
  return {.d_sum = d_sum, .d_branch = before.d_branch, .d_branch2 = before.d_branch2};
}

namespace {

// The stream that enters the second norm.
PendingSum between_branches(const Context& context, int64_t layer, const BlockActivations& a, const BlockWorkspace& w) {
  if (context.model.parallel_residual) return {.residual = a.sum1};
  return {.residual = a.sum1,
          .branch = w.branch1,
          .dropout = context.attention_branch_dropout(layer),
          .d_branch = w.d_attention_branch};
}

}  // namespace

PendingSum block_forward(const Context& context, int64_t layer, const BlockParameters& weights, const BlockActivations& a,
                         const BlockWorkspace& w, const PendingSum& in, BlockOutput output, KeyValueCache* cache) {
  const bool parallel = context.model.parallel_residual;
  add_and_norm(context, in, a.sum1, norm1(weights, a));
  attention_forward(context, layer, weights, a, w.branch1, cache);
  add_and_norm(context, between_branches(context, layer, a, w), a.sum2, norm2(weights, a));
  mlp_up_forward(context, weights, a);
  if (output == BlockOutput::yes) mlp_down_forward(context, weights, a, parallel ? w.branch2 : w.branch1);
  return block_output(context, layer, a, w);
}

void block_rebuild(const Context& context, const BlockParameters& weights, const BlockActivations& a) {
  const Tensor sum2 = context.model.parallel_residual ? a.sum1 : a.sum2;
  add_and_norm(context, {.residual = a.sum1}, {}, norm1(weights, a));
  add_and_norm(context, {.residual = sum2}, {}, norm2(weights, a));
  mlp_rebuild_activated(context, a);
}

PendingGrad block_backward(const Context& context, int64_t layer, const BlockParameters& weights, const BlockParameters& grads,
                           const BlockActivations& a, const BlockWorkspace& w, const PendingGrad& out, const PendingSum& before) {
  const bool parallel = context.model.parallel_residual;
  const NormKind kind = norm_kind(context.model.normalization);
  const NormGrads grads2 = norm_grads(context, w.d_sum, between_branches(context, layer, a, w));
  const NormGrads grads1 = norm_grads(context, w.d_sum, before);
  mlp_backward(context, weights, grads, a, w, parallel ? out.d_branch2 : out.d_branch, w.d_normed2);
  if (parallel) attention_backward(context, layer, weights, grads, a, w, out.d_branch, w.d_normed1);
  context.backend.run(kCompute, ResidualNormBackward{.kind = kind,
                                                     .sum = parallel ? a.sum1 : a.sum2,
                                                     .weight = weights.norm2_weight,
                                                     .mean = a.mean2,
                                                     .rstd = a.rstd2,
                                                     .d_out = w.d_normed2,
                                                     .d_residual = out.d_sum,
                                                     .dropout = context.attention_branch_dropout(layer),
                                                     .d_sum = grads2.d_sum,
                                                     .d_branch = grads2.d_branch,
                                                     .d_weight = grads.norm2_weight,
                                                     .d_bias = grads.norm2_bias});
  if (!parallel) attention_backward(context, layer, weights, grads, a, w, w.d_attention_branch, w.d_normed1);
  context.backend.run(kCompute, ResidualNormBackward{.kind = kind,
                                                     .sum = a.sum1,
                                                     .weight = weights.norm1_weight,
                                                     .mean = a.mean1,
                                                     .rstd = a.rstd1,
                                                     .d_out = w.d_normed1,
                                                     .d_residual = w.d_sum,
                                                     .dropout = before.dropout,
                                                     .dropout2 = before.dropout2,
                                                     .d_sum = grads1.d_sum,
                                                     .d_branch = grads1.d_branch,
                                                     .d_branch2 = grads1.d_branch2,
                                                     .d_weight = grads.norm1_weight,
                                                     .d_bias = grads.norm1_bias});
  return {.d_sum = w.d_sum, .d_branch = before.d_branch, .d_branch2 = before.d_branch2};
}

}  // namespace trireme
