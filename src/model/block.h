// One transformer block, forward and backward. The residual stream moves between blocks with its last add still pending, so that
// the add is fused with the norm that opens the next block:
//
//   sequential   sum1 = pending;  sum2 = sum1 + drop(attention(norm1(sum1)));  out = sum2 + drop(mlp(norm2(sum2)))
//   parallel     sum1 = pending;  out = sum1 + drop(attention(norm1(sum1))) + drop(mlp(norm2(sum1)))
//                with a shared norm, norm2 has the parameters of norm1
#pragma once

#include "model/attention.h"
#include "model/mlp.h"

namespace trireme {

// A residual stream whose value is residual + dropout(branch) + dropout2(branch2); without branches, residual itself.
struct PendingSum {
  Tensor residual;         // [R,C]
  Tensor branch, branch2;  // [R,C]
  Dropout dropout, dropout2;
};

// Recompute needs the activations but not the block's output.
enum class BlockOutput : uint8_t { no, yes };

// Fills pass.a.
PendingSum block_forward(const BlockPass& pass, const PendingSum& in, BlockOutput output = BlockOutput::yes,
                         KeyValueCache* cache = nullptr);

// Which branches were pending on a stream: those of a layer, or none after the embedding and between stages.
struct PendingBranches {
  enum class Which : uint8_t { none, attention, mlp, both };
  Which which = Which::none;
  int64_t layer = 0;

  bool has_attention() const { return which == Which::attention || which == Which::both; }
  bool has_mlp() const { return which == Which::mlp || which == Which::both; }
};
// Those on the stream that leaves a layer.
PendingBranches pending_after(const Context& context, int64_t layer);

// The gradient of a residual stream and those of the branches pending on it, which without dropout are d_sum itself.
struct StreamGrad {
  Operand d_sum;
  Operand d_attention, d_mlp;  // [R,C]
};
StreamGrad take_stream_grad(const Context& context, const PendingBranches& pending);
// The backward of the norm that opens a block or the head: takes and writes the gradient of the stream that entered it.
StreamGrad norm_backward(const Context& context, ResidualNormBackward op, const PendingBranches& pending);

// Returns the gradient of the stream that entered the block, from that of the stream that left it. `before`: the branches that
// were pending on the stream that entered. `g` is left for block_weight_grads.
StreamGrad block_backward(const BlockPass& pass, const BlockParameters& grads, const StreamGrad& d_out,
                          const PendingBranches& before, BlockGradients& g);

// The gradients of the parameters of linear layers, where block_backward deferred them.
void block_weight_grads(const BlockPass& pass, const BlockParameters& grads, const BlockGradients& g);

}  // namespace trireme
