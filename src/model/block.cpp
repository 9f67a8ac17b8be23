#include "model/block.h"

namespace trireme {
namespace {

struct NormTensors {
  Tensor weight, bias;
  Operand out;
  Tensor mean, rstd;
};

NormTensors norm1(const Context& context, const BlockParameters& weights, const BlockActivations& a) {
  return {weights.norm1_weight, weights.norm1_bias, context.linear.written(a.normed1), a.mean1, a.rstd1};
}
NormTensors norm2(const Context& context, const BlockParameters& weights, const BlockActivations& a) {
  return {weights.norm2_weight, weights.norm2_bias, context.linear.written(a.normed2), a.mean2, a.rstd2};
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

void rebuild_norm(const Context& context, Tensor sum, const NormTensors& norm) {
  if (!norm.out.fp8) return add_and_norm(context, {.residual = sum}, {}, norm);
  context.backend.run(kCompute, QuantiseNorm{.kind = norm_kind(context.model.normalization),
                                             .sum = sum,
                                             .weight = norm.weight,
                                             .bias = norm.bias,
                                             .mean = norm.mean,
                                             .rstd = norm.rstd,
                                             .out = norm.out});
}

}  // namespace

PendingSum block_output(const Context& context, int64_t layer, const BlockActivations& a, const BlockWorkspace& w) {
  if (context.model.parallel_residual)
    return {.residual = a.sum1,
            .branch = w.branch1,
            .branch2 = w.branch2,
            .dropout = context.attention_branch_dropout(layer),
            .dropout2 = context.mlp_branch_dropout(layer)};
  return {.residual = a.sum2, .branch = w.branch1, .dropout = context.mlp_branch_dropout(layer)};
}

PendingSum block_forward(const Context& context, int64_t layer, const BlockParameters& weights, const BlockActivations& a,
                         const BlockWorkspace& w, const PendingSum& in, BlockOutput output, KeyValueCache* cache) {
  const bool parallel = context.model.parallel_residual;
  add_and_norm(context, in, a.sum1, norm1(context, weights, a));
  attention_forward(context, layer, weights, a, w, w.branch1, cache);
  if (parallel)
    add_and_norm(context, {.residual = a.sum1}, {}, norm2(context, weights, a));
  else
    add_and_norm(context,
                 {.residual = a.sum1, .branch = w.branch1, .branch2 = {}, .dropout = context.attention_branch_dropout(layer)},
                 a.sum2, norm2(context, weights, a));
  mlp_up_forward(context, weights, a);
  if (output == BlockOutput::yes) mlp_down_forward(context, weights, a, parallel ? w.branch2 : w.branch1);
  return block_output(context, layer, a, w);
}

void block_rebuild(const Context& context, const BlockParameters& weights, const BlockActivations& a) {
  rebuild_norm(context, a.sum1, norm1(context, weights, a));
  if (a.attended.fp8)
    context.backend.run(kCompute, Quantise{.x = a.attended.reshaped({context.dims.N(), context.dims.H * context.dims.D})});
  rebuild_norm(context, context.model.parallel_residual ? a.sum1 : a.sum2, norm2(context, weights, a));
  mlp_rebuild_activated(context, a);
}

PendingGradPlaces grad_places(const Context& context, const PendingSum& pending, const BlockWorkspace& w,
                              const BlockGradients& g) {
  const Operand d_attention = context.linear.written(g.d_attention), d_mlp = context.linear.written(g.d_mlp);
  if (!pending.branch) return {.d_sum = w.d_sum, .d_branch = {}, .d_branch2 = {}};
  // With the copies of one branch: both have the same gradient.
  if (w.branch_grads == BranchGrads::same_as_sum) return {.d_sum = d_mlp, .d_branch = {}, .d_branch2 = {}};
  if (!pending.branch2) return {.d_sum = w.d_sum, .d_branch = d_mlp, .d_branch2 = {}};
  return {.d_sum = w.d_sum, .d_branch = d_attention, .d_branch2 = d_mlp};
}

Tensor block_backward(const Context& context, int64_t layer, const BlockParameters& weights, const BlockParameters& grads,
                      const BlockActivations& a, const BlockWorkspace& w, const BlockGradients& g, Tensor d_out,
                      const PendingSum& before, const BlockGradients& before_grads) {
  const bool parallel = context.model.parallel_residual;
  const NormKind kind = norm_kind(context.model.normalization);
  const bool writes = !parallel && w.branch_grads == BranchGrads::written;
  const Operand d_attention = context.linear.written(g.d_attention);
  const Operand d_sum = parallel || writes ? Operand(w.d_sum) : d_attention;  // of the stream between the two norms

  mlp_backward(context, weights, grads, a, w, g, w.d_normed2);
  if (parallel) attention_backward(context, layer, weights, grads, a, w, g, w.d_normed1);
  context.backend.run(kCompute, ResidualNormBackward{.kind = kind,
                                                     .sum = parallel ? a.sum1 : a.sum2,
                                                     .weight = weights.norm2_weight,
                                                     .mean = a.mean2,
                                                     .rstd = a.rstd2,
                                                     .d_out = w.d_normed2,
                                                     .d_residual = d_out,
                                                     .dropout = context.attention_branch_dropout(layer),
                                                     .d_sum = d_sum,
                                                     .d_branch = writes ? d_attention : Operand{},
                                                     .d_weight = grads.norm2_weight,
                                                     .d_bias = grads.norm2_bias});
  if (!parallel) attention_backward(context, layer, weights, grads, a, w, g, w.d_normed1);
  const PendingGradPlaces places = grad_places(context, before, w, before_grads);
  context.backend.run(kCompute, ResidualNormBackward{.kind = kind,
                                                     .sum = a.sum1,
                                                     .weight = weights.norm1_weight,
                                                     .mean = a.mean1,
                                                     .rstd = a.rstd1,
                                                     .d_out = w.d_normed1,
                                                     .d_residual = d_sum,
                                                     .dropout = before.dropout,
                                                     .dropout2 = before.dropout2,
                                                     .d_sum = places.d_sum,
                                                     .d_branch = places.d_branch,
                                                     .d_branch2 = places.d_branch2,
                                                     .d_weight = grads.norm1_weight,
                                                     .d_bias = grads.norm1_bias});
  return places.d_sum;
}

void block_weight_grads(const Context& context, const BlockParameters& grads, const BlockActivations& a,
                        const BlockGradients& g) {
  mlp_weight_grads(context, grads, a, g);
  attention_weight_grads(context, grads, a, g);
}

}  // namespace trireme
