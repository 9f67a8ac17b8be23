// Causal attention over sequences that are cut over the context-parallel ranks. A sequence has 2c parts; rank i of c holds parts
// i and 2c-1-i, so that all ranks have the same work under the causal mask. The rows of a micro-batch are ordered part by part:
// first the earlier parts of all its sequences, then the later ones.
//
// Keys and values go round the ring of ranks; each rank lets its queries attend to those that are with it, while the next ones
// come in, and joins the results. In backward the gradients of keys and values go round after them, and come home complete.
#pragma once

#include "model/activations.h"
#include "model/context.h"

namespace trireme {

// The number, among the 2c parts, of part `half` (0 or 1) of rank `rank` of c.
inline int64_t part_number(int64_t half, int64_t rank, int64_t ranks) { return half == 0 ? rank : 2 * ranks - 1 - rank; }

// a.attended and a.lse from a.qkv.
void ring_attention_forward(const Context& context, int64_t layer, const BlockActivations& a, const RingBuffers& ring);

// d_qkv from d_attended.
void ring_attention_backward(const Context& context, int64_t layer, const BlockActivations& a, Tensor d_attended, Tensor d_qkv,
                             const RingBuffers& ring);

}  // namespace trireme
