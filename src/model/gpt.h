// The model as one chunk of a pipeline stage holds it: some blocks, before them the embedding on the first chunk, after them the
// loss head on the last. A slot holds what a micro-batch keeps between its forward and its backward.
#pragma once

#include <optional>
#include <vector>

#include "model/embedding.h"
#include "model/loss_head.h"
#include "model/slots.h"

namespace trireme {

// What a pass of a chunk works on.
struct ChunkPass {
  Slots at;
  DeviceBatch batch;
  // Whether the gradients of linear layers replace the values there or are added to them: those of the head, and of the blocks.
  GradSum head_grads = GradSum::adds, block_grads = GradSum::adds;
};

class Gpt {
 public:
  // Tensors are taken from `memory` during the passes. `slots` of each ring; `fp8` is null without FP8.
  Gpt(const ModelSettings& model, const RankShard& shard, int64_t chunk, const Dims& dims, DType dtype, Backend& backend,
      const Mesh& mesh, const Slots& slots, TensorSource& memory, const Fp8State* fp8);

  // The stream travels between chunks as [R,C]: `input` arrived from the chunk before, `output` goes to the one after; absent on
  // the first and the last chunk. Losses are added to scalars.loss_sum.
  void forward(const ChunkPass& pass, Mode mode, Tensor input, Tensor output, const Weights& weights, const Grads& grads,
               Tensor scalars);
  // Their gradients the other way round. With Wgrad::deferred, backward_weight makes those of linear layers.
  void backward(const ChunkPass& pass, Wgrad when, Tensor d_output, Tensor d_input, const Weights& weights, Grads& grads);
  void backward_weight(const ChunkPass& pass, const Weights& weights, Grads& grads);

 private:
  // Layers that run forward again in backward do so in groups; of each group only the input is kept.
  struct RecomputePlan {
    int64_t group_begin = 0;  // first layer of its group; itself if it is not recomputed
    bool recomputed = false;
  };
  struct Saved {
    std::vector<BlockActivations> blocks;
    LossHead::Saved head;
  };
  // From backward_input to backward_weight.
  struct Deferred {
    BlockActivations a;
    BlockGradients g;
  };
  using Group = std::vector<BlockActivations>;

  static std::vector<RecomputePlan> plan_recompute(const ModelSettings& model, int64_t layers);
  Context context(const ChunkPass& pass, Mode mode, GradSum weight_grads, Wgrad when = Wgrad::with_dgrad) const;
  // Runs the recompute group again that ends with block `last` of this chunk.
  Group recompute(const Context& context, const Saved& saved, int64_t last, const Weights& weights) const;
  // The branches that were pending when the stream entered block `i` of this chunk.
  PendingBranches entered(const Context& context, int64_t i) const;
  // The gradient of the stream that leaves the last block.
  StreamGrad received_gradient(const Context& context, Tensor d_output) const;
  StreamGrad backward_blocks(const Context& context, const ChunkPass& pass, Wgrad when, StreamGrad d_stream,
                             const Weights& weights, Grads& grads);
  int64_t layer(int64_t i) const { return dims_.L_first + i; }
  bool ends_group(int64_t i) const;
  // The layer that backward acquires after block `i` of this chunk.
  int64_t before(int64_t i) const;

  const ModelSettings& model_;
  bool embeds_, has_head_, first_of_stage_;
  Dims dims_;
  DType dtype_;
  Backend& backend_;
  const Mesh& mesh_;
  TensorSource& memory_;
  const Fp8State* fp8_;
  std::vector<RecomputePlan> plan_;              // by layer
  std::vector<Saved> saved_;                     // by slot
  std::vector<std::vector<Deferred>> deferred_;  // by slot and layer
  std::optional<LossHead> head_;                 // on the last chunk
};

}  // namespace trireme
