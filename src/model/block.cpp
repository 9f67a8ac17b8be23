#include "model/block.h"

namespace trireme {
namespace {

Tensor take_stream(const Context& context, const char* name) { return context.take(name, {context.dims.R, context.dims.C}); }

// The parameters of a norm and what it leaves for backward.
struct Norm {
  Tensor weight, bias;
  Operand out;
  Tensor mean, rstd;
};

void add_and_norm(const Context& context, const PendingSum& in, Tensor sum, const Norm& norm) {
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

Tensor take_mean(const Context& context, const char* name) {
  return context.model.normalization == Normalization::rmsnorm ? Tensor{} : context.take_f32(name, {context.dims.R});
}

// Takes and writes a.sum1 and what norm1 makes of it.
void norm1_forward(const BlockPass& pass, const PendingSum& in) {
  const Context& context = pass.context;
  BlockActivations& a = pass.a;
  a.sum1 = in.branch ? take_stream(context, "sum1") : in.residual;
  a.normed1 = context.linear.input(pass.site(BlockLinear::qkv), take_stream(context, "normed1"));
  a.mean1 = take_mean(context, "mean1");
  a.rstd1 = context.take_f32("rstd1", {context.dims.R});
  add_and_norm(context, in, a.sum1, {pass.weights.norm1_weight, pass.weights.norm1_bias, a.normed1, a.mean1, a.rstd1});
}

// Takes and writes a.sum2, unless the residual is parallel, and what norm2 makes of it.
void norm2_forward(const BlockPass& pass, const PendingSum& in) {
  const Context& context = pass.context;
  BlockActivations& a = pass.a;
  if (in.branch) a.sum2 = take_stream(context, "sum2");
  a.normed2 = context.linear.input(pass.site(BlockLinear::up), take_stream(context, "normed2"));
  a.mean2 = take_mean(context, "mean2");
  a.rstd2 = context.take_f32("rstd2", {context.dims.R});
  add_and_norm(context, in, a.sum2, {pass.weights.norm2_weight, pass.weights.norm2_bias, a.normed2, a.mean2, a.rstd2});
}

Operand normed_again(const BlockPass& pass, BlockLinear linear, const char* name, const Norm& norm, Tensor sum) {
  const ModelSettings& model = pass.context.model;
  return pass.context.linear.normed_again(pass.site(linear), name,
                                          {.kind = norm_kind(model.normalization),
                                           .epsilon = static_cast<float>(model.layernorm_epsilon),
                                           .sum = sum,
                                           .weight = norm.weight,
                                           .bias = norm.bias,
                                           .mean = norm.mean,
                                           .rstd = norm.rstd});
}

// Where forward did not keep the inputs of linear layers, backward makes them again.
Inputs inputs_in_backward(const Context& context) {
  const bool selective = context.model.activations_checkpoint_granularity == RecomputeGranularity::selective;
  return selective || !context.linear.keeps_inputs() ? Inputs::made_again : Inputs::kept;
}

Tensor mlp_backward_with_norm(const BlockPass& pass, const BlockParameters& grads, BlockGradients& g) {
  BlockActivations& a = pass.a;
  const Inputs inputs = inputs_in_backward(pass.context);
  if (inputs == Inputs::made_again)
    a.normed2 =
        normed_again(pass, BlockLinear::up, "normed2", {pass.weights.norm2_weight, pass.weights.norm2_bias, {}, a.mean2, a.rstd2},
                     a.sum2 ? a.sum2 : a.sum1);
  return mlp_backward(pass, grads, g, inputs);
}

Tensor attention_backward_with_norm(const BlockPass& pass, const BlockParameters& grads, BlockGradients& g) {
  BlockActivations& a = pass.a;
  if (inputs_in_backward(pass.context) == Inputs::made_again)
    a.normed1 = normed_again(pass, BlockLinear::qkv, "normed1",
                             {pass.weights.norm1_weight, pass.weights.norm1_bias, {}, a.mean1, a.rstd1}, a.sum1);
  return attention_backward(pass, grads, g);
}

}  // namespace

PendingSum block_forward(const BlockPass& pass, const PendingSum& in, BlockOutput output, KeyValueCache* cache) {
  const Context& context = pass.context;
  BlockActivations& a = pass.a;
  const bool parallel = context.model.parallel_residual;
  norm1_forward(pass, in);
  const Dropout dropout = context.attention_branch_dropout(pass.layer), mlp_dropout = context.mlp_branch_dropout(pass.layer);
  const Tensor branch = attention_forward(pass, cache);
  const PendingSum attention{.residual = a.sum1, .branch = branch, .branch2 = {}, .dropout = dropout, .dropout2 = {}};
  norm2_forward(pass, parallel ? PendingSum{.residual = a.sum1} : attention);
  mlp_up_forward(pass);
  const Tensor mlp_branch = output == BlockOutput::yes ? mlp_down_forward(pass) : Tensor{};
  if (!parallel) return {.residual = a.sum2, .branch = mlp_branch, .dropout = mlp_dropout};
  PendingSum both = attention;
  both.branch2 = mlp_branch;
  both.dropout2 = mlp_dropout;
  return both;
}

PendingBranches pending_after(const Context& context, int64_t layer) {
  using enum PendingBranches::Which;
  return {context.model.parallel_residual ? both : mlp, layer};
}

StreamGrad take_stream_grad(const Context& context, const PendingBranches& pending) {
  const LinearSite attention{pending.layer, BlockLinear::out}, mlp{pending.layer, BlockLinear::down};
  StreamGrad grad{.d_sum = take_stream(context, "d_sum"), .d_attention = {}, .d_mlp = {}};
  if (pending.which == PendingBranches::Which::none) return grad;
  if (!context.hidden_dropout_active()) {
    grad.d_sum = context.linear.output_grad(pending.has_mlp() ? mlp : attention, grad.d_sum.tensor, Wide::kept);
    grad.d_attention = grad.d_mlp = grad.d_sum;
    return grad;
  }
  if (pending.has_attention()) grad.d_attention = context.linear.output_grad(attention, take_stream(context, "d_attention"));
  if (pending.has_mlp()) grad.d_mlp = context.linear.output_grad(mlp, take_stream(context, "d_mlp"));
  return grad;
}

StreamGrad norm_backward(const Context& context, ResidualNormBackward op, const PendingBranches& pending) {
  const StreamGrad grad = take_stream_grad(context, pending);
  op.kind = norm_kind(context.model.normalization);
  op.d_sum = grad.d_sum;
  if (context.hidden_dropout_active() && pending.which != PendingBranches::Which::none) {
    const Dropout attention = context.attention_branch_dropout(pending.layer), mlp = context.mlp_branch_dropout(pending.layer);
    op.dropout = pending.has_attention() ? attention : mlp;
    op.d_branch = pending.has_attention() ? grad.d_attention : grad.d_mlp;
    if (pending.which == PendingBranches::Which::both) op.dropout2 = mlp, op.d_branch2 = grad.d_mlp;
  }
  context.backend.run(kCompute, op);
  return grad;
}

StreamGrad block_backward(const BlockPass& pass, const BlockParameters& grads, const StreamGrad& d_out,
                          const PendingBranches& before, BlockGradients& g) {
  const Context& context = pass.context;
  const BlockActivations& a = pass.a;
  const bool parallel = context.model.parallel_residual;
  g.d_mlp = d_out.d_mlp;
  g.d_attention = d_out.d_attention;
  const Tensor d_normed2 = mlp_backward_with_norm(pass, grads, g);
  Tensor d_normed1 = parallel ? attention_backward_with_norm(pass, grads, g) : Tensor{};
  const StreamGrad between =
      norm_backward(context,
                    {.sum = parallel ? a.sum1 : a.sum2,
                     .weight = pass.weights.norm2_weight,
                     .mean = a.mean2,
                     .rstd = a.rstd2,
                     .d_out = d_normed2,
                     .d_residual = d_out.d_sum.tensor,
                     .d_weight = grads.norm2_weight,
                     .d_bias = grads.norm2_bias},
                    {parallel ? PendingBranches::Which::none : PendingBranches::Which::attention, pass.layer});
  if (!parallel) {
    g.d_attention = between.d_attention;
    d_normed1 = attention_backward_with_norm(pass, grads, g);
  }
  return norm_backward(context,
                       {.sum = a.sum1,
                        .weight = pass.weights.norm1_weight,
                        .mean = a.mean1,
                        .rstd = a.rstd1,
                        .d_out = d_normed1,
                        .d_residual = between.d_sum.tensor,
                        .d_weight = grads.norm1_weight,
                        .d_bias = grads.norm1_bias},
                       before);
}

void block_weight_grads(const BlockPass& pass, const BlockParameters& grads, const BlockGradients& g) {
  mlp_weight_grads(pass, grads, g);
  attention_weight_grads(pass, grads, g);
}

}  // namespace trireme
