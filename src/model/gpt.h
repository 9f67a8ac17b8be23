// The model as one pipeline stage holds it: some blocks, before them the embedding on the first stage, behind them the loss head
// on the last. A slot is the memory of one micro-batch between its forward and its backward; addresses never change.
#pragma once

#include <optional>

#include "model/embedding.h"
#include "model/loss_head.h"

namespace trireme {

class Gpt {
 public:
  Gpt(const ModelSettings& model, const RankShard& shard, const Dims& dims, DType dtype, const Fp8State* fp8, Backend& backend,
      const Mesh& mesh, int64_t slots, Arena& activations, Arena& scratch);

  const DeviceBatch& batch(int64_t slot) const { return batches_[static_cast<size_t>(slot)]; }

  // What travels between stages, [N,C] each: the residual stream into the first block and out of the last, and their gradients.
  Tensor input(int64_t slot) const { return table_.block(slot, 0).sum1; }
  Tensor output(int64_t slot) const { return outputs_[static_cast<size_t>(slot)]; }
  Tensor d_input() const { return d_input_; }
  Tensor d_output() const { return d_output_; }

  // Losses are added to scalars.loss_sum.
  void forward(int64_t slot, const Weights& weights, const Grads& grads, Tensor scalars) const;
  void backward(int64_t slot, const Weights& weights, Grads& grads) const;
  void evaluate(int64_t slot, const Weights& weights, const Grads& grads, Tensor scalars) const;

 private:
  Context context(int64_t slot, Mode mode) const;
  PendingSum forward_blocks(const Context& context, int64_t slot, const Weights& weights) const;
  // Runs the recompute group again that ends with block `last` of this stage.
  void recompute(const Context& context, int64_t slot, int64_t last, const Weights& weights) const;
  // What was pending when the stream entered block `i` of this stage.
  PendingSum entered(const Context& context, int64_t slot, int64_t i) const;
  void finish_output(const Context& context, int64_t slot, const PendingSum& stream) const;
  PendingGrad received_gradient(const Context& context, int64_t slot) const;
  int64_t layer(int64_t i) const { return dims_.L_first + i; }

  const ModelSettings& model_;
  RankShard shard_;
  Dims dims_;
  Backend& backend_;
  const Mesh& mesh_;
  std::vector<DeviceBatch> batches_;
  ActivationTable table_;
  std::optional<LossHead> head_;  // on the last stage
  std::vector<Tensor> outputs_;   // by slot; not on the last stage
  Tensor d_input_;                // not on the first stage
  Tensor d_output_;               // not on the last stage
};

}  // namespace trireme
