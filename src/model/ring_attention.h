// Causal attention over sequences that are cut over the context-parallel ranks, two parts of each on a rank
// (data/batch/sequence_cut.h). The rows of a micro-batch are ordered part by part: first the earlier parts of all its sequences,
// then the later ones.
//
// Keys and values go round the ring of ranks; each rank lets its queries attend to those that are with it, while the next ones
// come in, and joins the results. In backward the gradients of keys and values go round after them, and come home complete.
#pragma once

#include "model/block_pass.h"

namespace trireme {

// Writes a.attended and a.lse, from a.qkv.
void ring_attention_forward(const BlockPass& pass);

// Writes d_qkv, from d_attended.
void ring_attention_backward(const BlockPass& pass, Tensor d_attended, Tensor d_qkv);

}  // namespace trireme
