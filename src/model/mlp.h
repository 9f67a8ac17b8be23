// The feed-forward part of a block: up, GELU or SwiGLU, down.
#pragma once

#include "model/activations.h"
#include "model/context.h"
#include "model/weights.h"

namespace trireme {

// a.up and a.activated from a.normed2.
void mlp_up_forward(const Context& context, const BlockParameters& weights, const BlockActivations& a);
// branch = a.activated down_weight^T + down_bias.
void mlp_down_forward(const Context& context, const BlockParameters& weights, const BlockActivations& a, Tensor branch);

// a.activated again, from a.up: equal bits. Not the FP8 copies of GELU, which backward makes together with those of its gradient.
void mlp_rebuild_activated(const Context& context, const BlockActivations& a);

// d_normed = gradient of a.normed2, given g.d_mlp, that of the branch; adds the gradients of the parameters, unless they are put
// off: then mlp_weight_grads does it.
void mlp_backward(const Context& context, const BlockParameters& weights, const BlockParameters& grads, const BlockActivations& a,
                  const BlockWorkspace& w, const BlockGradients& g, Tensor d_normed);
void mlp_weight_grads(const Context& context, const BlockParameters& grads, const BlockActivations& a, const BlockGradients& g);

}  // namespace trireme
