// Scales and amax histories of FP8 GEMMs: a table with one row for the input and one for the output gradient of every linear
// layer, including the LM head if it is in FP8. Delayed scaling: a step collects the amax of each tensor, and its end computes
// the scales of the next step. The first micro-batch of a run has no history and uses current scaling. Weights always do.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/mesh.h"
#include "model/dims.h"
#include "tensor/arena.h"

namespace trireme {

enum class BlockLinear : uint8_t { qkv, out, up, down, count_ };
inline constexpr int64_t kBlockLinears = static_cast<int64_t>(BlockLinear::count_);

// A linear layer of the model: one of a block, or the LM head.
struct LinearSite {
  static constexpr int64_t kHead = -1;
  int64_t layer = kHead;
  BlockLinear linear = BlockLinear::qkv;

  bool is_head() const { return layer == kHead; }
  bool is_column_parallel() const { return is_head() || linear == BlockLinear::qkv || linear == BlockLinear::up; }
};

class Fp8State {
 public:
  Fp8State(const ModelSettings& model, const RankShard& shard, Arena& arena);
  Fp8State(const Fp8State&) = delete;  // operands point to its scaling
  Fp8State& operator=(const Fp8State&) = delete;

  DType input_dtype() const { return DType::f8e4m3; }  // weights too
  DType output_grad_dtype() const { return output_grad_dtype_; }

  const std::vector<int64_t>& layers() const { return layers_; }  // those of this stage
  bool has_head() const { return has_head_; }                     // and whether the LM head is here and in FP8
  bool has(LinearSite site) const { return !site.is_head() || has_head_; }
  // Point `copy` to the scale and amax of a tensor of a layer; its memory is left alone.
  void assign_input(LinearSite site, Fp8Copy& copy) const;
  void assign_output_grad(LinearSite site, Fp8Copy& copy) const;
  void assign_weight(LinearSite site, Fp8Copy& copy) const;

  void clear(Backend& backend) const;       // as before the first step
  void begin_step(Backend& backend) const;  // clears amaxes collected outside of steps
  // Computes the scales of the next step from the largest amax over all ranks that hold a part of the same tensor.
  void update(Backend& backend, const Mesh& mesh) const;
  // How inputs and output gradients are scaled from now on.
  void set_scaling(Fp8Scaling scaling) { scaling_ = scaling; }

  // What a checkpoint holds: each row under its global name, [4 + history] f32.
  struct Row {
    std::string name;
    Tensor values;
  };
  std::vector<Row> rows() const;

 private:
  void assign(int64_t row, Fp8Copy& copy) const;
  int64_t input_row(LinearSite site) const;
  int64_t head_row() const { return std::ssize(layers_) * kBlockLinears; }

  const Fp8Settings settings_;
  DType output_grad_dtype_;
  std::vector<int64_t> layers_;
  bool has_head_;
  int64_t input_rows_;
  Fp8Scaling scaling_ = Fp8Scaling::delayed;
  Tensor table_;    // [rows, 4 + history] f32, as UpdateScales has it: the rows of inputs, then those of output gradients
  Tensor amax_;     // [rows] f32: of the step that is running
  Tensor weights_;  // [input_rows_, 4] f32: inverse, scale, amax
};

}  // namespace trireme
