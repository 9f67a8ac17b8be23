// Self-attention: from the normed residual stream to the branch that is added to it.
#pragma once

#include "model/block_pass.h"

namespace trireme {

// Returns the branch, attention(a.normed1) out_weight^T + out_bias, [R,C]. Takes and writes a.qkv, a.attended and a.lse. With a
// cache, keys and values join those of earlier positions.
Tensor attention_forward(const BlockPass& pass, KeyValueCache* cache = nullptr);

// Returns the gradient of a.normed1, given g.d_attention, that of the branch. Takes and writes g.d_qkv. Adds the gradients of the
// parameters, unless they are deferred: then attention_weight_grads does so.
Tensor attention_backward(const BlockPass& pass, const BlockParameters& grads, BlockGradients& g);
void attention_weight_grads(const BlockPass& pass, const BlockParameters& grads, const BlockGradients& g);

}  // namespace trireme
