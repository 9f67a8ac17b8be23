// The end of the model: final norm, logits, cross entropy. Forward and backward of the logits run together, chunk by chunk over
// the rows, so that the logits never exist whole.
#pragma once

#include "model/block.h"

namespace trireme {

class LossHead {
 public:
  LossHead(const Dims& dims, const Backend& backend);

  // What backward needs of a micro-batch.
  struct Saved {
    Tensor sum;         // [R,C] the residual stream at the end
    Tensor mean, rstd;  // [R] f32
    Tensor d_normed;    // [R,C]
  };

  // Adds the losses of the micro-batch to scalars.loss_sum. In training also makes the gradients of the head and of the final
  // norm's output, from which final_norm_backward continues.
  Saved forward(const Context& context, const HeadParameters& weights, const HeadParameters& grads, const PendingSum& in,
                Tensor scalars) const;

  // Rows of a micro-batch, and the token whose likelihood after each of them is asked for.
  struct AskedRows {
    Tensor rows, targets;  // [M] i32
  };
  struct RowScores {
    Tensor losses;                 // [M] f32: -log likelihood of the target
    Tensor row_max, target_logit;  // [M] f32: equal where the target is the likeliest token
  };
  // Evaluates only the rows that are asked for.
  RowScores score(const Context& context, const HeadParameters& weights, const PendingSum& in, const AskedRows& asked,
                  Tensor scalars) const;

  // Returns the gradient of the stream that entered the head.
  StreamGrad final_norm_backward(const Context& context, const Saved& saved, const HeadParameters& weights,
                                 const HeadParameters& grads, const PendingBranches& before) const;

 private:
  // A chunk of rows at a time.
  struct Chunk {
    Tensor logits;                          // [chunk,V_padded], in training then their gradient
    Tensor row_max, row_sum, target_logit;  // [chunk] f32
    Tensor part_max;                        // [chunk] f32; with the vocabulary cut over ranks
  };
  Chunk take_chunk(const Context& context, int64_t rows) const;
  // Returns the output of the final norm; fills sum, mean and rstd.
  Tensor final_norm(const Context& context, const HeadParameters& weights, const PendingSum& in, Saved& saved) const;
  void losses_and_grads(const Context& context, const HeadParameters& weights, const HeadParameters& grads, Tensor normed,
                        Tensor d_normed, Tensor scalars) const;
  // Of the vocabulary of all ranks.
  void cross_entropy(const Context& context, const CrossEntropy& op, Tensor part_max) const;

  int64_t chunk_rows_ = 0;
};

}  // namespace trireme
