#include "model/embedding.h"

namespace trireme {

void embedding_forward(const Context& context, const EmbeddingParameters& weights, Tensor out) {
  context.backend.run(kCompute, EmbeddingForward{.tokens = context.batch.tokens,
                                                 .positions = context.batch.positions,
                                                 .word = weights.word,
                                                 .position = weights.position,
                                                 .dropout = context.embedding_dropout(),
                                                 .out = out});
}

void embedding_backward(const Context& context, const EmbeddingParameters& grads, Tensor d_out) {
  context.backend.run(kCompute, EmbeddingBackward{.tokens = context.batch.tokens,
                                                  .positions = context.batch.positions,
                                                  .dropout = context.embedding_dropout(),
                                                  .d_out = d_out,
                                                  .d_word = grads.word,
                                                  .d_position = grads.position});
}

}  // namespace trireme
