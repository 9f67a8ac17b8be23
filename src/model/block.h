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
  Operand d_branch, d_branch2;  // [N,C] where the gradients of the branches go
};

// Gradient of a residual stream, and of the branches that were pending on it.
struct PendingGrad {
  Tensor d_sum;                 // [N,C]
  Operand d_branch, d_branch2;  // [N,C]; d_sum itself without dropout
};

// What a norm's backward writes, given the streams that are `before` it and the memory of their gradient.
struct NormGrads {
  Operand d_sum, d_branch, d_branch2;
};
NormGrads norm_grads(const Context& context, Tensor d_sum, const PendingSum& before);

// Recompute needs the activations but not the block's output.
enum class BlockOutput : uint8_t { no, yes };

PendingSum block_forward(const Context& context, int64_t layer, const BlockParameters& weights, const BlockActivations& a,
                         const BlockWorkspace& w, const PendingSum& in, BlockOutput output = BlockOutput::yes,
                         KeyValueCache* cache = nullptr);

// The norm and activation outputs again, from what selective recompute keeps.
void block_rebuild(const Context& context, const BlockParameters& weights, const BlockActivations& a);

// From the gradient of the block's output to that of its input, `before` being the stream that entered it (its branches
// get their gradients too).
PendingGrad block_backward(const Context& context, int64_t layer, const BlockParameters& weights, const BlockParameters& grads,
                           const BlockActivations& a, const BlockWorkspace& w, const PendingGrad& out, const PendingSum& before);

// What block_forward returned for a layer, for its successor's backward.
PendingSum block_output(const Context& context, int64_t layer, const BlockActivations& a, const BlockWorkspace& w);

}  // namespace trireme
