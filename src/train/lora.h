// Low-rank adapters (LoRA). A weight W of a target becomes W0 + scale B A, where only A [rank,I] and B [O,rank] are trained and
// W0 is that of the model the run starts from. The passes see W itself, so they are those of full training on every backend, and
// its gradient dW gives those of the adapters:
//
//   dA = scale B^T dW      dB = scale dW A^T
//
// After an update W is made again, in f32 where the weights have f32 masters. Adam's moments are those of A and B only; W0 takes
// memory of its own.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/weights.h"
#include "train/checkpoint/slice.h"

namespace trireme {

// A part of a parameter with an adapter of its own: all rows, or those of one segment where the model's family in transformers
// has a matrix for each (q, k, v and gate, up of Llama).
struct LoraTarget {
  std::string parameter;  // "blocks.0.attention.qkv.weight"
  int64_t first_row = 0, rows = 0, columns = 0;
  std::string name() const;  // "lora.blocks.0.attention.qkv.weight.0", with the first row
};

// In the order of the parameter table. UserError for names of target_modules that are not known.
std::vector<LoraTarget> lora_targets(const ModelSettings& model);

class LoraAdapters {
 public:
  // Views the masters of all parameters, and their gradients. The rank must hold whole parameters.
  LoraAdapters(const ModelSettings& model, const FlatLayout& layout, Backend& backend, const Tensor& masters, Arena& arena);

  // A is drawn, keyed by seed and name; B is 0.
  void initialise();
  // Call when the masters hold the weights of the model that the run starts from.
  void adopt_base();
  // Makes the masters of the targets from W0 and the adapters.
  void merge();

  // From the gradients of the weights.
  void make_gradients(const FlatViews& gradients);
  // Writes the sum of squares of the gradients of each parameter's adapters to squares[row of the whole table].
  void add_squares(Tensor squares);
  void update(Tensor scalars);

  // A, B and their moments, for a checkpoint.
  std::vector<CheckpointTensor> tensors() const;
  // A and B alone.
  std::vector<CheckpointTensor> adapter_tensors() const;

 private:
  struct Unit {
    LoraTarget target;
    size_t row = 0;        // of the layout
    int64_t a = 0, b = 0;  // offsets in the flat buffers
    Tensor base;           // [rows,columns] f32
  };
  struct Pair {
    Tensor a, b;  // [rank,columns], [rows,rank]
  };
  Pair pair_of(const Unit& unit, const Tensor& flat) const;
  Tensor part_of(const Unit& unit, const FlatViews& views) const;
  void add_tensors(const std::string& prefix, const Tensor& flat, std::vector<CheckpointTensor>& to) const;

  const ModelSettings& model_;
  const FlatLayout& layout_;
  Backend& backend_;
  FlatViews masters_;
  int64_t rank_ = 0;
  std::vector<Unit> units_;
  Tensor values_, gradients_, first_moment_, second_moment_;  // [count] f32
  Tensor scaled_identity_;                                    // [rank,rank] f32
  Tensor scaled_, product_;                                   // of one unit at a time
  std::vector<DecayRange> decays_;
  std::vector<FlatRange> squares_ranges_;  // by parameter with adapters
  std::vector<size_t> squares_rows_;       // of the whole table
};

}  // namespace trireme
