#include "model/mlp.h"

namespace trireme {
namespace {

Activation gelu_of(MlpActivation activation) {
  return activation == MlpActivation::gelu_erf ? Activation::gelu_erf : Activation::gelu_tanh;
}

Shape up_shape(const Context& context) {
  const Dims& d = context.dims;
  return {d.N(), is_gated(context.model.activation) ? 2 * d.F : d.F};
}

Tensor take_activated(const Context& context) { return context.take("activated", {context.dims.N(), context.dims.F}); }

// a.activated for wgrad. Where inputs are quantized, the GEMM that writes the gradient of GELU makes it too.
void make_activated_again(const BlockPass& pass) {
  const Context& context = pass.context;
  BlockActivations& a = pass.a;
  a.activated = {};
  if (is_gated(context.model.activation)) {
    a.activated = context.linear.wgrad_input(pass.site(BlockLinear::down), take_activated(context));
    context.backend.run(kCompute, SwigluForward{.gate_up = a.up, .out = a.activated});
  } else if (context.linear.keeps_inputs()) {
    a.activated = take_activated(context);
    context.backend.run(kCompute,
                        ActivationForward{.activation = gelu_of(context.model.activation), .pre = a.up, .out = a.activated});
  }
}

}  // namespace

void mlp_up_forward(const BlockPass& pass) {
  const Context& context = pass.context;
  BlockActivations& a = pass.a;
  a.up = context.take("up", up_shape(context));
  a.activated = context.linear.input(pass.site(BlockLinear::down), take_activated(context));
  const LinearForward up{.x = a.normed2, .weight = pass.weights.up_weight, .bias = pass.weights.up_bias, .out = a.up};
  if (is_gated(context.model.activation)) {
    context.linear.column_forward(pass.site(BlockLinear::up), up);
    context.backend.run(kCompute, SwigluForward{.gate_up = a.up, .out = a.activated});
  } else {
    LinearForward with_gelu = up;
    with_gelu.activation = gelu_of(context.model.activation);
    with_gelu.pre = a.up;
    with_gelu.out = a.activated;
    context.linear.column_forward(pass.site(BlockLinear::up), with_gelu);
  }
}

Tensor mlp_down_forward(const BlockPass& pass) {
  const Context& context = pass.context;
  const Tensor branch = context.take("mlp_branch", {context.dims.R, context.dims.C});
  context.linear.row_forward(
      {.x = pass.a.activated, .weight = pass.weights.down_weight, .bias = pass.weights.down_bias, .out = branch});
  return branch;
}

Tensor mlp_backward(const BlockPass& pass, const BlockParameters& grads, BlockGradients& g, Inputs inputs) {
  const Context& context = pass.context;
  const BlockActivations& a = pass.a;
  const bool gated = is_gated(context.model.activation);
  if (inputs == Inputs::made_again) make_activated_again(pass);
  g.d_up = context.linear.output_grad(pass.site(BlockLinear::up), context.take("d_up", up_shape(context)));
  const Tensor d_activated = gated ? context.take("d_activated", {context.dims.N(), context.dims.F}) : Tensor{};
  context.linear.row_backward(pass.site(BlockLinear::down),
                              {.x = a.activated,
                               .d_out = g.d_mlp,
                               .weight = pass.weights.down_weight,
                               .d_out_site = pass.site(BlockLinear::down),
                               .activation = gated ? Activation::none : gelu_of(context.model.activation),
                               .pre = gated ? Tensor{} : a.up,
                               .d_x = gated ? Operand(d_activated) : g.d_up,
                               .d_weight = grads.down_weight.tensor,
                               .d_bias = grads.down_bias});
  if (gated) context.backend.run(kCompute, SwigluBackward{.gate_up = a.up, .d_out = d_activated, .d_gate_up = g.d_up});
  const Tensor d_normed = context.take("d_normed2", {context.dims.R, context.dims.C});
  context.linear.column_backward(pass.site(BlockLinear::up), {.x = a.normed2,
                                                              .d_out = g.d_up,
                                                              .weight = pass.weights.up_weight,
                                                              .d_x = d_normed,
                                                              .d_weight = grads.up_weight.tensor,
                                                              .d_bias = grads.up_bias});
  return d_normed;
}

void mlp_weight_grads(const BlockPass& pass, const BlockParameters& grads, const BlockGradients& g) {
  pass.context.linear.row_weight_grad(
      pass.site(BlockLinear::down),
      {.x = pass.a.activated, .d_out = g.d_mlp, .d_weight = grads.down_weight.tensor, .d_bias = grads.down_bias});
  pass.context.linear.column_weight_grad(
      pass.site(BlockLinear::up),
      {.x = pass.a.normed2, .d_out = g.d_up, .d_weight = grads.up_weight.tensor, .d_bias = grads.up_bias});
}

}  // namespace trireme
