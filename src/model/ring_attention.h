// Causal attention over sequences that are cut over the context-parallel ranks, two parts of each on a rank
// (data/batch/sequence_cut.h). The rows of a micro-batch are ordered part by part: first the earlier parts of all its sequences,
// then the later ones.
//
// Keys and values travel around the ring of ranks. Each rank attends to the keys it holds while the next ones arrive, and merges
// the results. In backward the gradients of keys and values follow them and return to their owner complete.
#pragma once

#include "model/block_pass.h"

namespace trireme {

// Writes a.attended and a.lse, from a.qkv.
void ring_attention_forward(const BlockPass& pass);

// Writes d_qkv, from d_attended.
void ring_attention_backward(const BlockPass& pass, Tensor d_attended, Tensor d_qkv);

}  // namespace trireme
