// Low-rank adapters (LoRA). A weight W of a target becomes W0 + scale B A, where only A [rank,I] and B [O,rank] are trained and
// W0 is that of the model the run starts from. The passes see W itself, so they are those of full training on every backend, and
// its gradient dW gives those of the adapters:
//
//   dA = scale B^T dW      dB = scale dW A^T
//
// Both are linear in dW: each rank computes its share from its own dW of each micro-batch, and only dA and dB are summed over the
// ranks. A dW lives until its block has been handed over.
//
// With tensor parallelism a rank has the rows or columns of W that it has without adapters. Of a weight cut by rows it has these
// rows of B and all of A, and of one cut by columns these columns of A and all of B. Gradients of the halves that every rank has
// are summed over the tensor-parallel ranks.
//
// After an update W is made again, in f32 where the weights have f32 masters, and each rank makes the part that it owns. Adam's
// moments are those of A and B only, on every rank; W0 takes memory of its own, sharded as the masters are.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/mesh.h"
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
// The names of A and B of each.
std::vector<std::string> adapter_names(const ModelSettings& model);

class LoraAdapters {
 public:
  using MasterOf = std::function<Tensor(const Bucket&, const OwnedPart&)>;

  // Views the masters that the rank owns.
  LoraAdapters(const ModelSettings& model, const FlatLayout& layout, Backend& backend, const Mesh& mesh,
               const MasterOf& master_of, Arena& arena);

  // A is drawn, keyed by seed and name; B is 0.
  void initialise();
  // Call when the masters hold the weights of the model that the run starts from.
  void adopt_base();
  // Makes the masters of the targets from W0 and the adapters.
  void merge();
  bool changes(const Bucket& bucket) const;  // whether it holds weights that merge() makes

  void clear_gradients();
  // Adds what a micro-batch gives, from this rank's gradients of the weights of the layer.
  void add_gradients(int64_t layer, const FlatViews& gradients);
  // Sums them over the ranks, and writes the sum of squares of each of adapter_names() to `squares`: the ones that this rank
  // counts, and 0 for the others.
  void finish_gradients(Tensor squares);
  void update(Tensor scalars);

  enum class Held : uint8_t { all, counted };  // of what several ranks hold alike, one counts it
  // A, B and their moments, for a checkpoint.
  std::vector<CheckpointTensor> tensors(Held which) const;
  // A and B alone.
  std::vector<CheckpointTensor> adapter_tensors(Held which = Held::all) const;

 private:
  struct Rows {
    int64_t global = 0, local = 0, count = 0;  // where they begin in the target and in this rank's part of it
  };
  // An adapter, and this rank's part of its target.
  struct Unit {
    LoraTarget target;
    size_t index = 0;                         // of the target
    size_t row = 0;                           // of the layout
    int64_t first_row = 0, rows = 0;          // in the rank's part of the parameter
    std::vector<Rows> pieces;                 // the same rows in the target
    int64_t first_column = 0, columns = 0;    // in the target
    bool shares_a = false, shares_b = false;  // with the other tensor-parallel ranks
    int64_t a = 0, b = 0;                     // offsets in the flat buffers
    Shape a_shape() const { return {rank, columns}; }
    Shape b_shape() const { return {rows, rank}; }
    int64_t rank = 0;
  };
  // Elements of a unit's weight that this rank owns.
  struct Part {
    size_t unit = 0;
    int64_t first_row = 0, rows = 0;  // of the unit, that hold them
    int64_t skipped = 0;              // elements of these rows before them
    Tensor master, base;              // [count] f32
  };
  Unit unit_of(const LoraTarget& target, size_t index, size_t row) const;
  void place_units();
  void add_parts(const MasterOf& master_of, Arena& arena);
  Tensor a_in(const Unit& unit, const Tensor& flat) const { return flat.flat_range(unit.a, unit.a_shape()); }
  Tensor b_in(const Unit& unit, const Tensor& flat) const { return flat.flat_range(unit.b, unit.b_shape()); }
  void add_tensors(const std::string& prefix, const Tensor& flat, Held which, std::vector<CheckpointTensor>& to) const;
  bool counts(bool is_shared) const;

  const ModelSettings& model_;
  const FlatLayout& layout_;
  Backend& backend_;
  const Mesh& mesh_;
  int64_t rank_ = 0;
  std::vector<Unit> units_;
  std::vector<Part> parts_;
  int64_t count_ = 0, shared_ = 0;                            // elements of a flat buffer; the shared halves begin here
  Tensor values_, gradients_, first_moment_, second_moment_;  // [count] f32
  Tensor scaled_identity_;                                    // [rank,rank] f32
  Tensor scaled_, product_;                                   // of one unit at a time
  std::vector<DecayRange> decays_;
};

}  // namespace trireme
