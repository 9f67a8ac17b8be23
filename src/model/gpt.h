// The model as one chunk of a pipeline stage holds it: some blocks, before them the embedding on the first chunk, behind them the
// loss head on the last. Slots are the memory of a micro-batch between its forward and its backward; addresses never change.
#pragma once

#include <optional>

#include "model/embedding.h"
#include "model/loss_head.h"

namespace trireme {

// What a pass of a chunk works on.
struct ChunkPass {
  Slots at;
  DeviceBatch batch;
  GradSum weight_grads = GradSum::adds;  // those of linear layers: the first micro-batch of a step replaces what is there
};

class Gpt {
 public:
  // `slots` of each ring.
  Gpt(const ModelSettings& model, const RankShard& shard, int64_t chunk, const Dims& dims, DType dtype, Backend& backend,
      const Mesh& mesh, const Slots& slots, const SharedWorkspace& shared, const ModelMemory& memory);

  // The stream travels between chunks as [R,C]: `input` is what came from the chunk before, `output` goes to the one behind;
  // absent on the first and the last chunk. Losses are added to scalars.loss_sum.
  void forward(const ChunkPass& pass, Mode mode, Tensor input, Tensor output, const Weights& weights, const Grads& grads,
               Tensor scalars) const;
  // Their gradients the other way round. With WeightProducts::later, backward_weight makes those of linear layers.
  void backward(const ChunkPass& pass, WeightProducts when, Tensor d_output, Tensor d_input, const Weights& weights,
                Grads& grads) const;
  void backward_weight(const ChunkPass& pass, Grads& grads) const;

 private:
  Context context(const ChunkPass& pass, Mode mode, WeightProducts when = WeightProducts::now) const;
  PendingSum forward_blocks(const Context& context, const Slots& at, const Weights& weights) const;
  // Runs the recompute group again that ends with block `last` of this chunk.
  void recompute(const Context& context, const Slots& at, int64_t last, const Weights& weights) const;
  // What was pending when the stream entered block `i` of this chunk.
  PendingSum entered(const Context& context, const Slots& at, int64_t i) const;
  // The gradient of the stream that leaves the last block, and in `last` those of its branches.
  Tensor received_gradient(const Context& context, const Slots& at, Tensor d_output, BlockGradients& last) const;
  int64_t layer(int64_t i) const { return dims_.L_first + i; }

  const ModelSettings& model_;
  bool embeds_, has_head_, first_of_stage_;
  Dims dims_;
  Backend& backend_;
  const Mesh& mesh_;
  const SharedWorkspace& shared_;
  ActivationTable table_;
  std::optional<LossHead> head_;  // on the last chunk
};

}  // namespace trireme
