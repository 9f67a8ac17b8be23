// The activation table: which tensors a block keeps between forward and backward, and where they lie.
#pragma once

#include <vector>

#include "model/dims.h"
#include "model/fp8_state.h"

namespace trireme {

struct BlockActivations {
  Tensor sum1;          // [N,C] the residual stream that enters the block
  Operand normed1;      // [N,C]
  Tensor mean1, rstd1;  // [N] f32; mean is absent with rmsnorm
  Tensor qkv;           // [B,T,H+2G,D] q, k, v packed, never permuted
  Operand attended;     // [B,T,H,D]
  Tensor lse;           // [B,H,T] f32
  Tensor sum2;          // [N,C] after the attention branch; absent with a parallel residual, where norm2 reads sum1
  Operand normed2;      // [N,C]
  Tensor mean2, rstd2;  // [N] f32
  Tensor up;            // [N,F] before GELU, or [N,2F] gate and up before SwiGLU
  Operand activated;    // [N,F]
};

// What forward and backward pass from op to op and nobody keeps.
struct BlockWorkspace {
  Tensor branch1, branch2;      // [N,C] outputs of attention and mlp, until the next norm adds them
  Tensor d_sum;                 // [N,C] gradient of the residual stream
  Operand d_attention_branch;   // [N,C] d_sum through dropout; without dropout, d_sum itself
  Operand d_mlp_branch;         // [N,C] the same; the same memory unless both are alive at once
  Tensor d_normed1, d_normed2;  // [N,C]; the same memory unless the residual is parallel
  Operand d_qkv;                // [B,T,H+2G,D]
  Tensor d_attended;            // [B,T,H,D]
  Operand d_up;                 // as up
  Tensor d_activated;           // [N,F], SwiGLU only
};

// Memory that all blocks share: of outputs that selective recompute rebuilds in backward and, with FP8 copies, of what forward
// reads at once and backward not at all.
struct SharedActivations {
  Tensor normed1, normed2;                        // [N,C]
  Tensor activated;                               // [N,F]
  Tensor fp8_values;                              // room for the widest of them
  Tensor normed1_transposed, normed2_transposed;  // [C,N]
  Tensor activated_transposed;                    // [F,N]
};

class ActivationTable {
 public:
  // Per layer: does it keep everything, everything but what is rebuilt, or only its input (in groups that are recomputed
  // together).
  struct Layer {
    int64_t group_begin = 0;  // first layer of its recompute group; itself if it keeps its activations
    bool recomputed = false;  // the whole group runs forward again in backward
  };

  // With `fp8` the inputs of linear layers are kept as FP8.
  ActivationTable(const ModelSettings& model, const Dims& dims, DType dtype, const Fp8State* fp8, int64_t slots,
                  Arena& activations, Arena& scratch);

  const BlockActivations& block(int64_t slot, int64_t layer) const {
    return blocks_[static_cast<size_t>(slot * layers_ + layer)];
  }
  // The same memory for every layer.
  const BlockWorkspace& workspace(int64_t layer) const { return workspaces_[static_cast<size_t>(layer)]; }
  Layer plan(int64_t layer) const { return plan_[static_cast<size_t>(layer)]; }
  bool rebuilds() const { return rebuilds_; }  // selective: norms and activations are rebuilt

 private:
  int64_t layers_ = 0;
  std::vector<Layer> plan_;
  std::vector<BlockActivations> blocks_;
  std::vector<BlockWorkspace> workspaces_;
  bool rebuilds_ = false;
};

// All activations of one block; those present in `shared` are taken from there.
BlockActivations make_block_activations(const ModelSettings& model, const Dims& dims, DType dtype, Arena& arena,
                                        const SharedActivations& shared = {}, const Fp8State* fp8 = nullptr);
enum class Backward : uint8_t { no, yes };
BlockWorkspace make_block_workspace(const ModelSettings& model, const Dims& dims, DType dtype, Backward backward, Arena& arena,
                                    const Fp8State* fp8 = nullptr);

}  // namespace trireme
