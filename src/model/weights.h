// The weights store: every parameter of this rank in one flat buffer, gradients in another with the same offsets. Parameters are
// in the order in which backward finishes their gradients: the head, each block, the embedding. The buffers are cut into buckets.
// Each bucket is one reduce-scatter of gradients and one all-gather of weights. With a distributed optimizer, masters and Adam
// states are sharded over the ranks that hold the same parameters: rank r owns the r-th piece of every bucket, and its state
// buffers hold these pieces one after the other. Without it every rank owns all of every bucket.
//
// The model makes two calls per block: weights.acquire before it reads a block's parameters, and grads.finished after backward
// has written the last gradient of a block.
#pragma once

#include <array>

#include "backend/backend.h"
#include "comm/mesh.h"
#include "model/fp8_state.h"
#include "model/shard.h"

namespace trireme {

// The parameters of a block, or their gradients. Biases, and norm biases with rmsnorm, may be absent.
struct BlockParameters {
  Tensor norm1_weight, norm1_bias;  // [C]
  Operand qkv_weight;               // [(H+2G)D,C]
  Tensor qkv_bias;                  // [(H+2G)D]
  Operand out_weight;               // [C,HD]
  Tensor out_bias;                  // [C]
  Tensor norm2_weight, norm2_bias;  // [C]
  Operand up_weight;                // [F,C], or [2F,C] gate then up
  Tensor up_bias;                   // [F] or [2F]
  Operand down_weight;              // [C,F]
  Tensor down_bias;                 // [C]
};

struct EmbeddingParameters {
  Tensor word;      // [V_padded,C]
  Tensor position;  // [P,C], absent without learned positions
};

struct HeadParameters {
  Tensor norm_weight, norm_bias;  // [C]
  Operand head;                   // [V_padded,C]; with tied embeddings the same memory as embedding.word
};

// The part of a parameter in this rank's state buffers: elements of one of its local pieces.
struct OwnedPart {
  size_t row = 0;  // of the table
  LocalPiece piece;
  int64_t begin = 0, count = 0;  // elements of the piece
  int64_t flat = 0;              // their offset in the flat buffers
  int64_t state = 0;             // their offset in the state buffers
};

struct Bucket {
  size_t first_row = 0, end_row = 0;  // of the table
  FlatRange all;                      // in the flat buffers
  FlatRange own;                      // the piece of it that this rank owns
  int64_t state = 0;                  // offset of that piece in the state buffers
  std::vector<OwnedPart> parts;       // the parameters in that piece
};

// Parameters whose gradients are finished together.
struct Unit {
  size_t first_row = 0, end_row = 0;        // of the table
  size_t first_bucket = 0, end_bucket = 0;  // that hold some of them
};

// The offsets of this rank's parameters in the flat buffers. Each starts on a 256-byte boundary of the narrowest dtype.
struct FlatLayout {
  RankShard shard;
  std::vector<ParameterRow> table;    // rows that this rank holds, in the order of the parameter table
  std::vector<size_t> table_rows;     // where they are in the table of the whole model
  std::vector<LocalParameter> local;  // what this rank holds of each
  std::vector<int64_t> offsets;
  std::vector<int64_t> weight_offsets;  // in the flat buffer of the weights: the same, unless some are not in it (kNotStored)
  std::vector<Bucket> buckets;
  Unit head, embedding;            // empty where this rank has nothing of them
  std::vector<Unit> blocks;        // by layer
  int64_t count = 0;               // elements of a flat buffer
  int64_t weight_count = 0;        // elements of the flat buffer of the weights
  int64_t state_count = 0;         // elements of a state buffer
  int64_t most_in_bucket() const;  // elements of the largest bucket

  // Buckets of up to model.optim.bucket_cap_mb; without it one per unit.
  static FlatLayout of(const ModelSettings& model, const RankShard& shard = {});
  static constexpr int64_t kNotStored = -1;  // with model.fp8_params, the matrices of the blocks: they have FP8 copies only
  bool stores_all_weights() const { return weight_count == count; }
  int64_t find(const std::string& name) const;  // row, or -1
};

// Which flat buffer: the one of the weights may lack some parameters.
enum class FlatBuffer : uint8_t { whole, weights };

// The tensors of a flat buffer, by name and by block. Those that are not in it have a shape and no memory.
class FlatViews {
 public:
  FlatViews(const FlatLayout& layout, const ModelSettings& model, Tensor flat, FlatBuffer which = FlatBuffer::whole);

  Tensor flat() const { return flat_; }
  Tensor parameter(size_t row) const;  // its local part, padding rows included
  const BlockParameters& block(int64_t layer) const { return blocks_[static_cast<size_t>(layer)]; }
  BlockParameters& block(int64_t layer) { return blocks_[static_cast<size_t>(layer)]; }
  const EmbeddingParameters& embedding() const { return embedding_; }
  const HeadParameters& head() const { return head_; }
  HeadParameters& head() { return head_; }

 private:
  const FlatLayout& layout_;
  const std::vector<int64_t>& offsets_;
  Tensor flat_;
  std::vector<BlockParameters> blocks_;
  EmbeddingParameters embedding_;
  HeadParameters head_;
};

class Weights {
 public:
  Weights(const FlatLayout& layout, const ModelSettings& model, Backend& backend, Tensor flat)
      : layout_(layout), views_(layout, model, flat, FlatBuffer::weights), backend_(backend), gathered_(layout.buckets.size()) {}

  // Takes memory for FP8 copies of the blocks' matrices and, if it is in FP8, of the LM head. Matrices that are not stored get
  // theirs from `masters`, which must hold all of them.
  void add_fp8_copies(const ModelSettings& model, const Fp8State& fp8, Arena& arena, Tensor masters);

  // Returns a block's parameters; later work on the compute stream waits until they are gathered. Makes the FP8 copies on the
  // first use after an update.
  const BlockParameters& acquire(int64_t layer) const;
  void make_fp8_copies() const;  // all that are stale since an update
  const EmbeddingParameters& acquire_embedding() const { return wait_for(layout_.embedding), views_.embedding(); }
  const HeadParameters& acquire_head() const;
  const FlatViews& views() const { return views_; }

  // Where AdamW writes the weights that this rank owns of the bucket. Where they are not stored, that is `masters` itself.
  Tensor updated(size_t bucket, Tensor masters) const;
  // Makes the weights that this rank owns of the bucket from their masters.
  void set(size_t bucket, Tensor masters) const;
  // The same after an update, which has already written the weights if all are stored.
  void set_updated(size_t bucket, Tensor masters) const {
    if (!layout_.stores_all_weights()) set(bucket, masters);
  }
  // Gathers the pieces of a bucket over `group`, after every rank has updated its own.
  void gather(size_t bucket, Communicator& group);
  void wait_for_all() const;

 private:
  void wait_for(const Unit& unit) const;

  enum class Copies : uint8_t { made, stale };

  const FlatLayout& layout_;
  FlatViews views_;
  Backend& backend_;
  std::vector<Event> gathered_;                             // by bucket
  mutable std::vector<Copies> copies_;                      // by layer; empty without FP8
  mutable Copies head_copies_ = Copies::made;               // those of the LM head, if it has any
  std::vector<std::array<Operand, kBlockLinears>> copied_;  // by layer: the source of each copy, and the copy
};

// Whether further micro-batches of the step will add to the gradients.
enum class MicroBatch : uint8_t { more_follow, last };

// Gradients in the dtype in which they are summed over the ranks; absent if they are summed in place.
struct NarrowSums {
  Tensor bucket;  // [largest bucket] what this rank adds to the sum, bucket after bucket
  Tensor own;     // [state_count] the sums that this rank owns
};

class Grads {
 public:
  Grads(const FlatLayout& layout, const ModelSettings& model, Backend& backend, const Mesh& mesh, Tensor flat, NarrowSums narrow)
      : layout_(layout),
        views_(layout, model, flat),
        narrow_(narrow),
        backend_(backend),
        mesh_(mesh),
        sums_rows_(model.sequence_parallel && mesh.tp->size() > 1),
        overlaps_(model.optim.overlap_grad_sync),
        added_to_(ranges_added_to(layout)),
        reduced_(layout.buckets.size()) {}

  const BlockParameters& block(int64_t layer) const { return views_.block(layer); }
  const EmbeddingParameters& embedding() const { return views_.embedding(); }
  const HeadParameters& head() const { return views_.head(); }

  // Clears the gradients that the first micro-batch adds to: all but those of linear layers, which it overwrites.
  void clear() const;
  void begin_micro_batch(MicroBatch which) { micro_batch_ = which; }
  // Call after backward has written the last gradient of the block. On the last micro-batch, starts the sum over the ranks with
  // the same parameters, if that is to overlap backward.
  void finished(int64_t layer) { finished(layout_.blocks[static_cast<size_t>(layer)]); }
  void finished_head() { finished(layout_.head); }
  void finished_embedding() { finished(layout_.embedding); }
  // Call after all gradients of the step are written: starts the remaining sums.
  void finished_step();
  // Returns this rank's piece of the bucket; later work on the compute stream waits for its sum. Once per step, then own().
  Tensor acquire_own(size_t bucket) const;
  Tensor own(size_t bucket) const;
  const FlatViews& views() const { return views_; }

 private:
  static std::vector<FlatRange> ranges_added_to(const FlatLayout& layout);
  void finished(const Unit& unit) {
    if (overlaps_ && micro_batch_ == MicroBatch::last) sum(unit);
  }
  void sum(const Unit& unit);
  void sum_partial(const Unit& unit);
  void sum_shared_table(const Unit& unit);
  void reduce(const Bucket& bucket);

  const FlatLayout& layout_;
  FlatViews views_;
  NarrowSums narrow_;
  Backend& backend_;
  const Mesh& mesh_;
  bool sums_rows_;  // some gradients are sums over the rows of this rank only
  bool overlaps_;
  MicroBatch micro_batch_ = MicroBatch::last;
  std::vector<FlatRange> added_to_;  // see clear()
  size_t next_bucket_ = 0;           // to be reduced; units are finished in the order of the table
  std::vector<Event> reduced_;       // by bucket
};

// Initialises this rank's piece of a bucket in `masters` (f32) with draws keyed by seed, name and global element. Clears the
// padding.
void initialise(const FlatLayout& layout, const Bucket& bucket, uint64_t seed, Backend& backend, Tensor masters);

}  // namespace trireme
