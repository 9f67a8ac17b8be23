// The tensors of a block that outlive the op that writes them. They are taken from the step's memory when they are first written;
// how long each keeps its memory follows from the recorded step (train/lifetimes.h).
//
// N rows of a micro-batch; the residual stream and what is made from it alone has the R of them that this rank holds (dims.h).
#pragma once

#include "tensor/operand.h"

namespace trireme {

// Written in forward, read in backward.
struct BlockActivations {
  Tensor sum1;          // [R,C] the residual stream that enters the block
  Operand normed1;      // [R,C]
  Tensor mean1, rstd1;  // [R] f32; mean is absent with rmsnorm
  Tensor qkv;           // [B,T,H+2G,D] q, k, v packed, never permuted
  Tensor attended;      // [B,T,H,D]
  Tensor lse;           // [B,H,T] f32
  Tensor sum2;          // [R,C] after the attention branch; absent with a parallel residual, where norm2 reads sum1
  Operand normed2;      // [R,C]
  Tensor mean2, rstd2;  // [R] f32
  Tensor up;            // [N,F] before GELU, or [N,2F] gate and up before SwiGLU
  Operand activated;    // [N,F]
};

// Gradients of the outputs of linear layers, written in backward: wgrad reads them, possibly later.
struct BlockGradients {
  Operand d_attention, d_mlp;  // [R,C] of the two branches
  Operand d_qkv;               // [B,T,H+2G,D]
  Operand d_up;                // as up
};

}  // namespace trireme
