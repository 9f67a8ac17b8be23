// Tokens to vectors: word embedding, learned positions, dropout.
#pragma once

#include "model/context.h"
#include "model/weights.h"

namespace trireme {

Tensor embedding_forward(const Context& context, const EmbeddingParameters& weights);  // takes and returns the stream, [R,C]
void embedding_backward(const Context& context, const EmbeddingParameters& grads, Tensor d_out);  // d_out [R,C]

}  // namespace trireme
