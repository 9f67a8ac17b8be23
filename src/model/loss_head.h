// The end of the model: final norm, logits, cross entropy. Forward and backward of the logits run together, chunk by chunk over
// the rows, so that the logits never exist whole.
#pragma once

#include "model/block.h"

namespace trireme {

class LossHead {
 public:
  // `fp8`: null, or that of the model, of which the head may be a part.
  LossHead(const ModelSettings& model, const Dims& dims, DType dtype, const Backend& backend, const Fp8State* fp8,
           const ModelMemory& memory, int64_t slots);

  // Adds the losses of the micro-batch to scalars.loss_sum. In training also makes the gradients of the head and of the final
  // norm's output, which final_norm_backward takes up.
  void forward(const Context& context, int64_t slot, const HeadParameters& weights, const HeadParameters& grads,
               const PendingSum& in, Tensor scalars) const;

  // The gradient of the stream that entered the head; those of the branches that were pending on it go to `before_grads`.
  Tensor final_norm_backward(const Context& context, int64_t slot, const HeadParameters& weights, const HeadParameters& grads,
                             const BlockWorkspace& w, const PendingSum& before, const BlockGradients& before_grads) const;

 private:
  void cross_entropy(const Context& context, const CrossEntropy& op) const;  // of the vocabulary of all ranks
  // The matrix with copies in `room`, if there is any.
  Operand quantised(const Context& context, Tensor matrix, const Fp8Copy& room) const;

  struct Slot {
    Tensor sum;         // [R,C] the residual stream at the end
    Tensor normed;      // [R,C]
    Tensor mean, rstd;  // [R] f32
    Tensor d_normed;    // [R,C]
  };
  std::vector<Slot> slots_;
  int64_t chunk_rows_ = 0;
  Tensor logits_;                            // [chunk,V_padded], in training then their gradient
  Fp8Copy input_, output_grad_;              // with room for the copies of a chunk; absent unless the head is in FP8
  Tensor row_max_, row_sum_, target_logit_;  // [chunk] f32
  Tensor part_max_;                          // [chunk] f32; with the vocabulary cut over ranks
  Tensor losses_;                            // [N] f32
};

}  // namespace trireme
