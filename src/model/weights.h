// The weights store: every parameter of this rank in one flat buffer, gradients in another with the same offsets. Parameters are
// in the order in which backward finishes their gradients: the head, each block, the embedding. The buffers are cut into buckets.
// Each bucket is one reduce-scatter of gradients and one all-gather of weights. With a distributed optimizer, masters and Adam
// states are sharded over the ranks that hold the same parameters: rank r owns the r-th piece of every bucket, and its state
// buffers hold these pieces one after the other. Without it every rank owns all of every bucket.
//
// With model.fsdp the gradients of the blocks, and with the strategy "full" their weights too, are sharded in the same way:
// between uses a rank holds only the piece that it owns. While a block is in use all of it is in a slot. The embedding and the
// head are in use from the beginning of a micro-batch to its end, so they stay whole.
//
// With LoRA the gradients of a block are in a slot until they have been handed over, and no rank keeps or sums them.
//
// The model makes three calls per block: weights.acquire before it reads a block's parameters, grads.acquire before backward
// writes the gradients, and grads.finished after backward has written the last of them.
#pragma once

#include <array>
#include <functional>

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

// Where parameters are in one flat buffer.
struct FlatPlaces {
  static constexpr int64_t kNotStored = -1;
  static constexpr int64_t kSlots = 2;  // the block in use, and the one before it or after it

  std::vector<int64_t> rows;   // offset of each row of the table, or kNotStored
  std::vector<FlatRange> all;  // of each bucket; a sharded one is there only while its slot holds it
  std::vector<FlatRange> own;  // the piece of each bucket that this rank owns
  std::vector<int64_t> slots;  // of each bucket, or kNotSharded; the buckets take turns
  static constexpr int64_t kNotSharded = -1;
  int64_t count = 0;  // elements of the buffer

  bool is_sharded(size_t bucket) const { return slots[bucket] != kNotSharded; }
};

// The offsets of this rank's parameters in the flat buffers. Each starts on a 256-byte boundary of the narrowest dtype.
struct FlatLayout {
  RankShard shard;
  std::vector<ParameterRow> table;    // rows that this rank holds, in the order of the parameter table
  std::vector<size_t> table_rows;     // where they are in the table of the whole model
  std::vector<LocalParameter> local;  // what this rank holds of each
  std::vector<int64_t> offsets;
  FlatPlaces weights, gradients;  // in their buffers: the same offsets, unless blocks are sharded or some weights are not stored
  std::vector<Bucket> buckets;
  Unit head, embedding;            // empty where this rank has nothing of them
  std::vector<Unit> blocks;        // by layer
  int64_t count = 0;               // elements of a flat buffer
  int64_t state_count = 0;         // elements of a state buffer
  int64_t most_in_bucket() const;  // elements of the largest bucket

  // Buckets of up to model.optim.bucket_cap_mb; without it one per unit.
  static FlatLayout of(const ModelSettings& model, const RankShard& shard = {});
  bool shards_gradients = false;                // of the blocks: model.fsdp with several ranks
  bool stores_all_weights = true;               // not with model.fp8_params: the matrices of the blocks have FP8 copies only
  int64_t find(const std::string& name) const;  // row, or -1
  size_t index_of(const Bucket& bucket) const { return static_cast<size_t>(&bucket - buckets.data()); }
};

// The tensors of a flat buffer, by name and by block. Those that are not in it have a shape and no memory.
class FlatViews {
 public:
  // `offsets` of the rows: layout.offsets, or those of the weights or the gradients.
  FlatViews(const FlatLayout& layout, const ModelSettings& model, Tensor flat, const std::vector<int64_t>& offsets);

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
  // `group`: the ranks that gather their pieces; null for one rank.
  Weights(const FlatLayout& layout, const ModelSettings& model, Backend& backend, Tensor flat, Communicator* group = nullptr)
      : layout_(layout),
        places_(layout.weights),
        views_(layout, model, flat, places_.rows),
        backend_(backend),
        group_(group),
        gathered_(layout.buckets.size()) {}

  // Takes memory for FP8 copies of the blocks' matrices and, if it is in FP8, of the LM head. Matrices that are not stored get
  // theirs from `masters`, which must hold all of them.
  void add_fp8_copies(const ModelSettings& model, const Fp8State& fp8, Arena& arena, Tensor masters);

  // Returns a block's parameters; later work on the compute stream waits until they are gathered. Makes the FP8 copies on the
  // first use after an update. If blocks are sharded, the parameters are there until another block is acquired, and those of
  // `next` are gathered meanwhile if it has another slot.
  const BlockParameters& acquire(int64_t layer, int64_t next = kNoLayer) const;
  static constexpr int64_t kNoLayer = -1;
  // If blocks are sharded, starts to gather the parameters of a block, unless they are there. No block may be in use.
  void prefetch(int64_t layer) const;
  void make_fp8_copies() const;  // all that are stale since an update
  const EmbeddingParameters& acquire_embedding() const { return wait_for(layout_.embedding), views_.embedding(); }
  const HeadParameters& acquire_head() const;
  const FlatViews& views() const { return views_; }

  Tensor own(size_t bucket) const { return views_.flat().rows(places_.own[bucket].begin, places_.own[bucket].count); }
  // Where AdamW writes the weights that this rank owns of the bucket. Where they are not stored, that is `masters` itself.
  Tensor updated(size_t bucket, Tensor masters) const;
  // Makes the weights that this rank owns of the bucket from their masters.
  void set(size_t bucket, Tensor masters) const;
  // The same after an update, which has already written the weights if all are stored.
  void set_updated(size_t bucket, Tensor masters) const {
    if (!layout_.stores_all_weights) set(bucket, masters);
  }
  // Gathers the pieces of a bucket, after every rank has updated its own. A sharded one is gathered when it is acquired.
  void gather(size_t bucket);
  void wait_for_all() const;

 private:
  void wait_for(const Unit& unit) const;

  void start_gather(size_t bucket) const;
  int64_t slot_of(int64_t layer) const;

  enum class Copies : uint8_t { made, stale };
  static constexpr int64_t kNothing = -1;

  const FlatLayout& layout_;
  const FlatPlaces& places_;
  FlatViews views_;
  Backend& backend_;
  Communicator* group_;
  mutable std::vector<Event> gathered_;                                             // by bucket
  mutable std::array<int64_t, FlatPlaces::kSlots> in_slot_ = {kNothing, kNothing};  // the layer whose parameters a slot holds
  mutable std::vector<Copies> copies_;                                              // by layer; empty without FP8
  mutable Copies head_copies_ = Copies::made;                                       // those of the LM head, if it has any
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
        places_(layout.gradients),
        views_(layout, model, flat, places_.rows),
        narrow_(narrow),
        backend_(backend),
        mesh_(mesh),
        sums_rows_(model.sequence_parallel && mesh.tp->size() > 1),
        overlaps_(model.optim.overlap_grad_sync),
        added_to_(layout.buckets.size()),
        reduced_(layout.buckets.size()),
        has_sum_(layout.buckets.size()) {
    for (size_t bucket = 0; bucket < layout.buckets.size(); ++bucket) added_to_[bucket] = ranges_added_to(bucket);
  }

  // Returns where backward writes the gradients of a block. If they are sharded, the place is that of this micro-batch alone.
  const BlockParameters& acquire(int64_t layer);
  const EmbeddingParameters& embedding() const { return views_.embedding(); }
  const HeadParameters& head() const { return views_.head(); }

  // For training that has no use for the sums: a block's gradients are handed over when they are finished, micro-batch by
  // micro-batch. The layout's gradients must be in slots.
  void hand_over(std::function<void(int64_t layer)> take) { take_ = std::move(take); }

  // Begins a step: clears the gradients that the first micro-batch adds to, which are all but those of linear layers.
  void clear();
  void begin_micro_batch(MicroBatch which) { micro_batch_ = which; }
  // Call after backward has written the last gradient of the block. On the last micro-batch, starts the sum over the ranks with
  // the same parameters, if that is to overlap backward; on every micro-batch if the block's gradients are sharded.
  void finished(int64_t layer) { take_ ? take_(layer) : finished(layout_.blocks[static_cast<size_t>(layer)]); }
  void finished_head() { finished(layout_.head); }
  void finished_embedding() { finished(layout_.embedding); }
  // Call after all gradients of the step are written: starts the remaining sums.
  void finished_step();
  // Returns this rank's piece of the bucket; later work on the compute stream waits for its sum. Once per step, then own().
  Tensor acquire_own(size_t bucket);
  Tensor own(size_t bucket) const { return views_.flat().rows(places_.own[bucket].begin, places_.own[bucket].count); }
  const FlatViews& views() const { return views_; }

 private:
  std::vector<FlatRange> ranges_added_to(size_t bucket) const;
  void finished(const Unit& unit);
  void sum(const Unit& unit);
  void sum_sharded(const Unit& unit);
  void add_to_own(size_t bucket);
  void sum_partial(const Unit& unit);
  void sum_shared_table(const Unit& unit);
  Tensor reduced_piece(size_t bucket) const;
  void reduce(size_t bucket);

  static constexpr int64_t kNothing = -1;

  const FlatLayout& layout_;
  const FlatPlaces& places_;
  FlatViews views_;
  NarrowSums narrow_;
  Backend& backend_;
  const Mesh& mesh_;
  bool sums_rows_;  // some gradients are sums over the rows of this rank only
  bool overlaps_;
  std::function<void(int64_t layer)> take_;
  MicroBatch micro_batch_ = MicroBatch::last;
  std::vector<std::vector<FlatRange>> added_to_;  // by bucket: see clear()
  size_t next_bucket_ = 0;                        // to be reduced; units are finished in the order of the table
  std::vector<Event> reduced_;                    // by bucket
  std::vector<bool> has_sum_;                     // by sharded bucket: whether its own piece has gradients of this step
  std::array<int64_t, FlatPlaces::kSlots> in_slot_ = {kNothing, kNothing};  // the bucket with gradients not yet in its own piece
};

// Initialises this rank's piece of a bucket in `masters` (f32) with draws keyed by seed, name and global element. Clears the
// padding.
void initialise(const FlatLayout& layout, const Bucket& bucket, uint64_t seed, Backend& backend, Tensor masters);

}  // namespace trireme
