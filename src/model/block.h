// One transformer block, forward and backward. The residual stream moves between blocks with its last add still pending, so that
// the add is fused with the norm that opens the next block:
//
//   sequential   sum1 = pending;  sum2 = sum1 + drop(attention(norm1(sum1)));  out = sum2 + drop(mlp(norm2(sum2)))
//   parallel     sum1 = pending;  out = sum1 + drop(attention(norm1(sum1))) + drop(mlp(norm2(sum1)))
#pragma once

#include "model/attention.h"
#include "model/mlp.h"

namespace trireme {

// A residual stream whose value is residual + dropout(branch) + dropout2(branch2); without branches, residual itself.
struct PendingSum {
  Tensor residual;         // [N,C]
  Tensor branch, branch2;  // [N,C]
  Dropout dropout, dropout2;
};

// Recompute needs the activations but not the block's output.
enum class BlockOutput : uint8_t { no, yes };

PendingSum block_forward(const Context& context, int64_t layer, const BlockParameters& weights, const BlockActivations& a,
                         const BlockWorkspace& w, const PendingSum& in, BlockOutput output = BlockOutput::yes,
                         KeyValueCache* cache = nullptr);

// The norm and activation outputs again, or the FP8 copies of inputs that backward needs, from what is kept without them.
void block_rebuild(const Context& context, const BlockParameters& weights, const BlockActivations& a);

// The gradient of the stream that entered the block, from `d_out`, that of the stream that left it, and the gradients of its
// branches in `g` (of the attention branch only with a parallel residual). `before` is the stream that entered; the gradients of
// the branches that were pending on it go to `before_grads`.
Tensor block_backward(const Context& context, int64_t layer, const BlockParameters& weights, const BlockParameters& grads,
                      const BlockActivations& a, const BlockWorkspace& w, const BlockGradients& g, Tensor d_out,
                      const PendingSum& before, const BlockGradients& before_grads);

// The gradients of the parameters of linear layers, where block_backward put them off.
void block_weight_grads(const Context& context, const BlockParameters& grads, const BlockActivations& a, const BlockGradients& g);

// Where the gradient of a block's output goes, and those of the branches pending on it; absent where a branch is, or where it is
// that of the sum.
struct PendingGradPlaces {
  Operand d_sum;
  Operand d_branch, d_branch2;
};
PendingGradPlaces grad_places(const Context& context, const PendingSum& pending, const BlockWorkspace& w,
                              const BlockGradients& g);

// What block_forward returned for a layer, for its successor's backward.
PendingSum block_output(const Context& context, int64_t layer, const BlockActivations& a, const BlockWorkspace& w);

}  // namespace trireme
