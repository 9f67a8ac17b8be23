#include "model/mlp.h"

namespace trireme {
namespace {

Activation gelu_of(MlpActivation activation) {
  return activation == MlpActivation::gelu_erf ? Activation::gelu_erf : Activation::gelu_tanh;
}

}  // namespace

void mlp_up_forward(const Context& context, const BlockParameters& weights, const BlockActivations& a) {
  if (is_gated(context.model.activation)) {
    context.linear.column_forward({.x = a.normed2, .weight = weights.up_weight, .bias = weights.up_bias, .out = a.up});
    context.backend.run(kCompute, SwigluForward{.gate_up = a.up, .out = a.activated});
  } else {
    context.linear.column_forward({.x = a.normed2,
                                   .weight = weights.up_weight,
                                   .bias = weights.up_bias,
                                   .activation = gelu_of(context.model.activation),
                                   .pre = a.up,
                                   .out = a.activated});
  }
}

void mlp_down_forward(const Context& context, const BlockParameters& weights, const BlockActivations& a, Tensor branch) {
  context.linear.row_forward({.x = a.activated, .weight = weights.down_weight, .bias = weights.down_bias, .out = branch});
}

void mlp_rebuild_activated(const Context& context, const BlockActivations& a) {
  if (is_gated(context.model.activation))
    context.backend.run(kCompute, SwigluForward{.gate_up = a.up, .out = a.activated});
  else if (!a.activated.fp8)
    context.backend.run(kCompute,
                        ActivationForward{.activation = gelu_of(context.model.activation), .pre = a.up, .out = a.activated});
}

void mlp_backward(const Context& context, const BlockParameters& weights, const BlockParameters& grads, const BlockActivations& a,
                  const BlockWorkspace& w, const BlockGradients& g, Tensor d_normed) {
  const bool gated = is_gated(context.model.activation);
  context.linear.row_backward({.x = a.activated,
                               .d_out = g.d_mlp,
                               .weight = weights.down_weight,
                               .activation = gated ? Activation::none : gelu_of(context.model.activation),
                               .pre = gated ? Tensor{} : a.up,
                               .input = a.activated.fp8 && !gated ? ActivatedInput::made_again : ActivatedInput::kept,
                               .d_x = gated ? Operand(w.d_activated) : g.d_up,
                               .d_weight = grads.down_weight,
                               .d_bias = grads.down_bias});
  if (gated) context.backend.run(kCompute, SwigluBackward{.gate_up = a.up, .d_out = w.d_activated, .d_gate_up = g.d_up});
  context.linear.column_backward({.x = a.normed2,
                                  .d_out = g.d_up,
                                  .weight = weights.up_weight,
                                  .d_x = d_normed,
                                  .d_weight = grads.up_weight,
                                  .d_bias = grads.up_bias});
}

void mlp_weight_grads(const Context& context, const BlockParameters& grads, const BlockActivations& a, const BlockGradients& g) {
  context.linear.row_weight_grad({.x = a.activated, .d_out = g.d_mlp, .d_weight = grads.down_weight, .d_bias = grads.down_bias});
  context.linear.column_weight_grad({.x = a.normed2, .d_out = g.d_up, .d_weight = grads.up_weight, .d_bias = grads.up_bias});
}

}  // namespace trireme
