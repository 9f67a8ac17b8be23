// Self-attention: from the normed residual stream to the branch that is added to it.
#pragma once

#include "model/activations.h"
#include "model/context.h"
#include "model/weights.h"

namespace trireme {

// branch = attention(a.normed1) out_weight^T + out_bias. With a cache, keys and values join those of earlier positions.
void attention_forward(const Context& context, int64_t layer, const BlockParameters& weights, const BlockActivations& a,
                       const BlockWorkspace& w, Tensor branch, KeyValueCache* cache = nullptr);

// d_normed = gradient of a.normed1, given g.d_attention, that of the branch; adds the gradients of the parameters, unless they
// are put off: then attention_weight_grads does it.
void attention_backward(const Context& context, int64_t layer, const BlockParameters& weights, const BlockParameters& grads,
                        const BlockActivations& a, const BlockWorkspace& w, const BlockGradients& g, Tensor d_normed);
void attention_weight_grads(const Context& context, const BlockParameters& grads, const BlockActivations& a,
                            const BlockGradients& g);

}  // namespace trireme
