// The model: embedding, blocks, loss head, as one pipeline stage holds them (here: all of it). A slot is the memory of one
// micro-batch between its forward and its backward; addresses never change.
#pragma once

#include "model/embedding.h"
#include "model/loss_head.h"

namespace trireme {

class Gpt {
 public:
  Gpt(const ModelSettings& model, const Dims& dims, DType dtype, Backend& backend, const Mesh& mesh, int64_t slots,
      Arena& activations, Arena& scratch);

  const DeviceBatch& batch(int64_t slot) const { return batches_[static_cast<size_t>(slot)]; }

  // Losses are added to scalars.loss_sum.
  void forward(int64_t slot, const Weights& weights, const Grads& grads, Tensor scalars) const;
  void backward(int64_t slot, const Weights& weights, Grads& grads) const;
  void evaluate(int64_t slot, const Weights& weights, const Grads& grads, Tensor scalars) const;

 private:
  Context context(int64_t slot, Mode mode) const;
  PendingSum forward_blocks(const Context& context, int64_t slot, const Weights& weights) const;
  // Runs the recompute group again that ends with `layer`.
  void recompute(const Context& context, int64_t slot, int64_t layer, const Weights& weights) const;
  // What was pending when the stream entered `layer`.
  PendingSum entered(const Context& context, int64_t slot, int64_t layer) const;

  const ModelSettings& model_;
  Dims dims_;
  Backend& backend_;
  const Mesh& mesh_;
  std::vector<DeviceBatch> batches_;
  ActivationTable table_;
  LossHead head_;
};

}  // namespace trireme
