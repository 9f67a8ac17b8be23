// The activation table: which tensors a block keeps between forward and backward, and where they lie.
//
// N rows of a micro-batch; the residual stream and what is made from it alone has the R of them that this rank holds (dims.h).
#pragma once

#include <vector>

#include "model/dims.h"
#include "model/fp8_state.h"
#include "model/parallel_linear.h"
#include "model/slots.h"
#include "tensor/arena.h"

namespace trireme {

struct BlockActivations {
  Tensor sum1;          // [R,C] the residual stream that enters the block
  Operand normed1;      // [R,C]
  Tensor mean1, rstd1;  // [R] f32; mean is absent with rmsnorm
  Tensor qkv;           // [B,T,H+2G,D] q, k, v packed, never permuted
  Operand attended;     // [B,T,H,D]
  Tensor lse;           // [B,H,T] f32
  Tensor sum2;          // [R,C] after the attention branch; absent with a parallel residual, where norm2 reads sum1
  Operand normed2;      // [R,C]
  Tensor mean2, rstd2;  // [R] f32
  Tensor up;            // [N,F] before GELU, or [N,2F] gate and up before SwiGLU
  Operand activated;    // [N,F]
};

// Of those, the inputs of linear layers: what weight products read.
struct LinearInputs {
  Operand normed1, attended, normed2, activated;
};

// Gradients of the outputs of linear layers, which weight products read too.
struct BlockGradients {
  Operand d_attention, d_mlp;  // [R,C] of the two branches
  Operand d_qkv;               // [B,T,H+2G,D]
  Operand d_up;                // as up
};

// Whether the gradient of a branch is a tensor of its own, or d_sum itself, which it equals without dropout.
enum class BranchGrads : uint8_t { same_as_sum, written };

// Keys and values of other ranks, and what is added up for them: ring_attention.h.
struct RingBuffers {
  Tensor key_values[2];    // [N,2G,D]: mine and those that come, or those that go and those that come
  Tensor d_key_values[2];  // [N,2G,D]
  Tensor part_out;         // [B,T/2,H,D] of one block of keys; in backward its d_q
  Tensor part_lse;         // [B,H,T/2] f32
  Tensor d_queries;        // [N,H,D] sums of d_q
  Tensor part_d_keys;      // [B,T/2,2G,D] of one block
};

// What forward and backward pass from op to op and nobody keeps.
struct BlockWorkspace {
  Tensor branch1, branch2;      // [R,C] outputs of attention and mlp, until the next norm adds them; the same memory unless
                                // the residual is parallel
  Tensor d_sum;                 // [R,C] gradient of the residual stream
  Tensor d_normed1, d_normed2;  // [R,C]; the same memory unless the residual is parallel
  Tensor d_attended;            // [B,T,H,D]; absent where it lies in the memory of d_up
  Tensor d_activated;           // [N,F], SwiGLU only
  BlockGradients gradients;     // where weight products are made now; see GradientPlaces for those that are absent
  BranchGrads branch_grads = BranchGrads::written;
  RowBuffers rows;
  RingBuffers ring;
};

// The gradient of the attention's output.
Tensor attended_gradient(const Dims& dims, const BlockWorkspace& w, const BlockGradients& gradients);

// Where a model takes its memory from: what lives from forward to backward, what is worked in, and the logits. They and what
// blocks work in may be the same memory: `work`, in which the loss head reads what it needs before there are logits, and
// `passing`, which holds nothing while attention runs and may be what attention itself works in.
struct ModelMemory {
  Arena &activations, &scratch, &logits, &work, &passing;
};

enum class Backward : uint8_t { no, yes };
BlockWorkspace make_block_workspace(const ModelSettings& model, const Dims& dims, DType dtype, Backward backward,
                                    WeightProducts when, const Fp8State* fp8, const ModelMemory& memory);

// With FP8 products, backward makes the copies of inputs that it needs from what is kept anyway: norms from the sums,
// activations from `up`. Beside the copies the tensors themselves are only worked in. All blocks share that memory.
struct Fp8Inputs {
  const Fp8State* state = nullptr;  // null without FP8
  bool one_gradient = false;        // both branches have the same gradient, and it has one copy
  Tensor normed;                    // [N,C]
  Tensor activated;                 // [N,F]
  Tensor values;                    // room for the widest of the inputs, in forward
};

BlockActivations make_block_activations(const ModelSettings& model, const Dims& dims, DType dtype, Arena& arena);

// Memory that all chunks of a stage share, because one of them works at a time.
struct SharedWorkspace {
  BlockWorkspace block;
  // Gradients that weight products beside backward read: layers take them in turn. A layer writes its own and one of the layer
  // below, so that the products of the one above it may still be under way.
  static constexpr int64_t kTurns = 3;
  std::vector<BlockGradients> in_turn;
  Fp8Inputs fp8;
  LinearInputs rebuilt;                // what selective recompute leaves out, and FP8
  std::vector<BlockActivations> pool;  // of the recompute group that is being worked on
};
// `dims` of the chunk with the most layers.
SharedWorkspace make_shared_workspace(const ModelSettings& model, const Dims& dims, DType dtype, WeightProducts when,
                                      const Fp8State* fp8, const ModelMemory& memory);

// Who asks for the activations of a block: with weight products put off, what is computed again for backward has memory of its
// own.
enum class Pass : uint8_t { forward, recompute, backward };

class ActivationTable {
 public:
  // Per layer: does it keep everything, everything but what is rebuilt, or only its input (in groups that are recomputed
  // together).
  struct Layer {
    int64_t group_begin = 0;  // first layer of its recompute group; itself if it keeps its activations
    bool recomputed = false;  // the whole group runs forward again in backward
  };

  // `slots` of each ring.
  ActivationTable(const ModelSettings& model, const Dims& dims, DType dtype, const Slots& slots, const SharedWorkspace& shared,
                  Arena& activations);

  BlockActivations block(const Slots& at, int64_t layer, Pass pass) const;
  BlockGradients gradients(const Slots& at, int64_t layer) const;
  Tensor input(const Slots& at) const { return saved_[index(at.saved, 0)].sum1; }
  Layer plan(int64_t layer) const { return plan_[static_cast<size_t>(layer)]; }
  bool rebuilds() const { return rebuilds_; }  // the inputs of linear layers are rebuilt

 private:
  struct Later {
    BlockGradients gradients;
    LinearInputs inputs;  // those that backward computes again
  };

  size_t index(int64_t slot, int64_t layer) const { return static_cast<size_t>(slot * layers_ + layer); }
  Later make_later(const ModelSettings& model, const Dims& dims, DType dtype, int64_t layer, Arena& arena) const;

  int64_t layers_ = 0, first_layer_ = 0;
  std::vector<Layer> plan_;
  bool rebuilds_ = false;
  bool one_at_a_time_ = true;  // a micro-batch goes backward before the next goes forward
  const SharedWorkspace& shared_;
  std::vector<BlockActivations> saved_;  // by slot and layer: until backward_input, and of layers that keep nothing else
  std::vector<LinearInputs> inputs_;     // until backward_weight
  std::vector<Later> later_;             // from backward_input to backward_weight
};

}  // namespace trireme
