// The feed-forward part of a block: up, GELU or SwiGLU, down.
#pragma once

#include "model/block_pass.h"

namespace trireme {

// Takes and writes a.up and a.activated, from a.normed2.
void mlp_up_forward(const BlockPass& pass);
// Returns the branch, a.activated down_weight^T + down_bias, [R,C].
Tensor mlp_down_forward(const BlockPass& pass);

// Whether the input of a linear layer is still there in backward.
enum class Inputs : uint8_t { kept, made_again };

// Returns the gradient of a.normed2, given g.d_mlp, that of the branch. Takes and writes g.d_up. With `Inputs::made_again`
// a.activated is made from a.up first: equal bits. Adds the gradients of the parameters, unless they are deferred: then
// mlp_weight_grads does so.
Tensor mlp_backward(const BlockPass& pass, const BlockParameters& grads, BlockGradients& g, Inputs inputs);
void mlp_weight_grads(const BlockPass& pass, const BlockParameters& grads, const BlockGradients& g);

}  // namespace trireme
