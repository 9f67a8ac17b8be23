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
  else
    context.backend.run(kCompute,
                        ActivationForward{.activation = gelu_of(context.model.activation), .pre = a.up, .out = a.activated});
}

void mlp_backward(const Context& context, const BlockParameters& weights, const BlockParameters& grads, const BlockActivations& a,
                  const BlockWorkspace& w, const Operand& d_branch, Tensor d_normed) {
  context.linear.weight_grad({.x = a.activated, .d_out = d_branch, .d_weight = grads.down_weight, .d_bias = grads.down_bias});
  if (is_gated(context.model.activation)) {
    context.linear.row_input_grad({.d_out = d_branch, .weight = weights.down_weight, .d_x = w.d_activated});
    context.backend.run(kCompute, SwigluBackward{.gate_up = a.up, .d_out = w.d_activated, .d_gate_up = w.d_up});
  } else {
    context.linear.row_input_grad({.d_out = d_branch,
                                   .weight = weights.down_weight,
                                   .activation = gelu_of(context.model.activation),
                                   .pre = a.up,
                                   .d_x = w.d_up});
  }
  context.linear.weight_grad({.x = a.normed2, .d_out = w.d_up, .d_weight = grads.up_weight, .d_bias = grads.up_bias});
  context.linear.column_input_grad({.d_out = w.d_up, .weight = weights.up_weight, .d_x = d_normed});
}

}  // namespace trireme
