// The weights store: every parameter of this rank in one flat buffer, gradients in another with the same offsets. Parameters lie
// in the order in which backward finishes their gradients: the head, each block, the embedding. The buffers are cut into buckets,
// each of which is summed and gathered as one. With a distributed optimizer masters and Adam states are shared out over the ranks
// that hold the same parameters: rank r owns the r-th piece of every bucket, and its state buffers hold those pieces one after
// the other. Otherwise every rank owns all of every bucket.
//
// The model makes two calls a block: weights.acquire before it reads a block's parameters, and grads.finished after backward
// wrote the last gradient of a block.
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

// The part of a parameter that this rank's state buffers hold: elements of one of its local pieces.
struct OwnedPart {
  size_t row = 0;  // of the table
  LocalPiece piece;
  int64_t begin = 0, count = 0;  // elements of the piece
  int64_t flat = 0;              // where they are in the flat buffers
  int64_t state = 0;             // and in the state buffers
};

struct Bucket {
  size_t first_row = 0, end_row = 0;  // of the table
  FlatRange all;                      // in the flat buffers
  FlatRange own;                      // the piece of it that this rank owns
  int64_t state = 0;                  // where that piece begins in the state buffers
  std::vector<OwnedPart> parts;       // of the parameters in the bucket, those that are in the piece
};

// Parameters whose gradients are finished together.
struct Unit {
  size_t first_row = 0, end_row = 0;        // of the table
  size_t first_bucket = 0, end_bucket = 0;  // that hold some of them
};

// Where the parameters of this rank lie in the flat buffers. They start on 256-byte boundaries of the narrowest dtype.
struct FlatLayout {
  RankShard shard;
  std::vector<ParameterRow> table;    // rows that this rank holds, in the order of the parameter table
  std::vector<size_t> table_rows;     // where they are in the table of the whole model
  std::vector<LocalParameter> local;  // what this rank holds of each
  std::vector<int64_t> offsets;
  std::vector<int64_t> weight_offsets;  // in the flat buffer of the weights: the same, unless some are not in it (kNotStored)
  std::vector<Bucket> buckets;
  Unit head, embedding;      // empty where this rank has nothing of them
  std::vector<Unit> blocks;  // by layer
  int64_t count = 0;         // elements of a flat buffer
  int64_t weight_count = 0;  // elements of that of the weights
  int64_t state_count = 0;   // elements of a state buffer

  // Buckets as large as model.optim.bucket_cap_mb; without it one for each unit.
  static FlatLayout of(const ModelSettings& model, const RankShard& shard = {});
  static constexpr int64_t kNotStored = -1;  // with model.fp8_params, the matrices of the blocks: they have FP8 copies only
  bool stores_all_weights() const { return weight_count == count; }
  int64_t find(const std::string& name) const;  // row, or -1
};

// Which flat buffer: that of the weights may lack some of them.
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

  // Gives the matrices of the blocks FP8 copies, and the LM head if it is to have them. Those that are not stored here have them
  // made from the masters, all of which are in `masters`.
  void add_fp8_copies(const ModelSettings& model, const Fp8State& fp8, Arena& arena, Tensor masters);

  // A block's parameters, complete and ready to use: what comes next on the compute stream waits for them. FP8 copies are made
  // when a block is first used after an update.
  const BlockParameters& acquire(int64_t layer) const;
  void make_fp8_copies() const;  // all that an update has left behind
  const EmbeddingParameters& acquire_embedding() const { return wait_for(layout_.embedding), views_.embedding(); }
  const HeadParameters& acquire_head() const;
  const FlatViews& views() const { return views_; }

  // Where AdamW writes what this rank owns of the bucket: with weights that are not stored nowhere but to `masters`, its piece of
  // the bucket.
  Tensor updated(size_t bucket, Tensor masters) const;
  // Makes the weights that this rank owns of the bucket from their masters.
  void set(size_t bucket, Tensor masters) const;
  // The same after an update, which has already written weights that are all stored.
  void set_updated(size_t bucket, Tensor masters) const {
    if (!layout_.stores_all_weights()) set(bucket, masters);
  }
  // Every rank has updated its piece of the bucket: collects the pieces of all of `group`.
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
  std::vector<std::array<Operand, kBlockLinears>> copied_;  // by layer: what copies are made from, and the copies
};

// Whether further micro-batches of the step will add to the gradients.
enum class MicroBatch : uint8_t { more_follow, last };

class Grads {
 public:
  // `sync` holds gradients while they are summed, in another dtype; absent if they are summed where they are.
  Grads(const FlatLayout& layout, const ModelSettings& model, Backend& backend, const Mesh& mesh, Tensor flat, Tensor sync)
      : layout_(layout),
        views_(layout, model, flat),
        sync_(sync),
        backend_(backend),
        mesh_(mesh),
        sums_rows_(model.sequence_parallel && mesh.tp->size() > 1),
        overlaps_(model.optim.overlap_grad_sync),
        added_to_(ranges_added_to(layout)),
        reduced_(layout.buckets.size()) {}

  const BlockParameters& block(int64_t layer) const { return views_.block(layer); }
  const EmbeddingParameters& embedding() const { return views_.embedding(); }
  const HeadParameters& head() const { return views_.head(); }

  // Clears what the first micro-batch of a step adds to: all but the gradients of linear layers, which it replaces.
  void clear() const;
  void begin_micro_batch(MicroBatch which) { micro_batch_ = which; }
  // Backward wrote the last gradient of the block: on the last micro-batch its sum over the ranks with the same parameters
  // starts, if that is to overlap with backward.
  void finished(int64_t layer) { finished(layout_.blocks[static_cast<size_t>(layer)]); }
  void finished_head() { finished(layout_.head); }
  void finished_embedding() { finished(layout_.embedding); }
  // All gradients of the step are written: starts the sums that have not started yet.
  void finished_step();
  // What comes next on the compute stream finds this rank's piece of the bucket summed. Once a step, then own().
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
  void reduce(size_t bucket);

  const FlatLayout& layout_;
  FlatViews views_;
  Tensor sync_;
  Backend& backend_;
  const Mesh& mesh_;
  bool sums_rows_;  // some gradients are sums over the rows of this rank only
  bool overlaps_;
  MicroBatch micro_batch_ = MicroBatch::last;
  std::vector<FlatRange> added_to_;  // see clear()
  size_t next_bucket_ = 0;           // to be reduced; units are finished in the order of the table
  std::vector<Event> reduced_;       // by bucket
};

// Draws what this rank owns of a bucket into `masters` (f32, its piece of the bucket), keyed by seed, name and global element,
// and clears the padding.
void initialise(const FlatLayout& layout, const Bucket& bucket, uint64_t seed, Backend& backend, Tensor masters);

}  // namespace trireme
