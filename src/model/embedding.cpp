#include "model/embedding.h"

namespace trireme {

// With the vocabulary cut over ranks each adds the rows it holds, the first one the positions, and dropout follows the sum.
Tensor embedding_forward(const Context& context, const EmbeddingParameters& weights) {
  const bool whole = context.tp.size() == 1;
  const Tensor out = context.take("embedded", {context.dims.R, context.dims.C});
  const Tensor sums = context.linear.row_sums(out);
  context.backend.run(kCompute, EmbeddingForward{.first_token = context.dims.V_first,
                                                 .tokens = context.batch.tokens,
                                                 .positions = context.batch.positions,
                                                 .word = weights.word,
                                                 .position = context.tp.rank() == 0 ? weights.position : Tensor{},
                                                 .dropout = whole ? context.embedding_dropout() : Dropout{},
                                                 .out = sums});
  if (whole) return out;
  context.linear.sum_rows(sums, out);
  if (context.hidden_dropout_active())
    context.backend.run(kCompute, DropoutBackward{.d_sum = out, .dropout = context.embedding_dropout(), .d_branch = out});
  return out;
}

void embedding_backward(const Context& context, const EmbeddingParameters& grads, Tensor d_out) {
  context.backend.run(kCompute, EmbeddingBackward{.first_token = context.dims.V_first,
                                                  .tokens = context.batch.tokens,
                                                  .positions = context.batch.positions,
                                                  .dropout = context.embedding_dropout_of_all_rows(),
                                                  .d_out = context.linear.all_rows(d_out),
                                                  .d_word = grads.word,
                                                  .d_position = grads.position});
}

}  // namespace trireme
