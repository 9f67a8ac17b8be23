// The weights store: every parameter of this rank in one flat buffer, gradients, masters and Adam states in buffers with the same
// offsets. The model makes two calls a block: weights.acquire before it reads a block's parameters, and grads.finished after
// backward wrote the last gradient of a block.
#pragma once

#include "backend/backend.h"
#include "comm/mesh.h"
#include "model/parameter_table.h"

namespace trireme {

// The parameters of a block, or their gradients. Biases, and norm biases with rmsnorm, may be absent.
struct BlockParameters {
  Tensor norm1_weight, norm1_bias;  // [C]
  Tensor qkv_weight, qkv_bias;      // [(H+2G)D,C]
  Tensor out_weight, out_bias;      // [C,HD]
  Tensor norm2_weight, norm2_bias;  // [C]
  Tensor up_weight, up_bias;        // [F,C], or [2F,C] gate then up
  Tensor down_weight, down_bias;    // [C,F]
};

struct EmbeddingParameters {
  Tensor word;      // [V_padded,C]
  Tensor position;  // [P,C], absent without learned positions
};

struct HeadParameters {
  Tensor norm_weight, norm_bias;  // [C]
  Tensor head;                    // [V_padded,C]; with tied embeddings the same memory as embedding.word
};

// Where each row of the parameter table lies in the flat buffers. Rows start on 256-byte boundaries of the narrowest dtype.
struct FlatLayout {
  std::vector<ParameterRow> table;
  std::vector<int64_t> offsets;
  int64_t count = 0;  // elements of a flat buffer

  static FlatLayout of(const ModelSettings& model);
  int64_t find(const std::string& name) const;  // row, or -1
};

// The tensors of a flat buffer, by name and by block.
class FlatViews {
 public:
  FlatViews(const FlatLayout& layout, const ModelSettings& model, Tensor flat);

  Tensor flat() const { return flat_; }
  Tensor parameter(size_t row) const;  // [padded_rows, ...]
  const BlockParameters& block(int64_t layer) const { return blocks_[static_cast<size_t>(layer)]; }
  const EmbeddingParameters& embedding() const { return embedding_; }
  const HeadParameters& head() const { return head_; }
  // The contiguous part of the flat buffer that holds one block's parameters.
  Tensor block_range(int64_t layer) const;

 private:
  const FlatLayout& layout_;
  Tensor flat_;
  std::vector<BlockParameters> blocks_;
  EmbeddingParameters embedding_;
  HeadParameters head_;
};

class Weights {
 public:
  Weights(const FlatLayout& layout, const ModelSettings& model, Tensor flat) : views_(layout, model, flat) {}

  // A block's parameters, complete and ready to use. With one data-parallel rank they always are.
  const BlockParameters& acquire(int64_t layer) const { return views_.block(layer); }
  const EmbeddingParameters& acquire_embedding() const { return views_.embedding(); }
  const HeadParameters& acquire_head() const { return views_.head(); }
  const FlatViews& views() const { return views_; }

 private:
  FlatViews views_;
};

// Whether further micro-batches of the step will add to the gradients.
enum class MicroBatch : uint8_t { more_follow, last };

class Grads {
 public:
  Grads(const FlatLayout& layout, const ModelSettings& model, Backend& backend, const Mesh& mesh, Tensor flat)
      : views_(layout, model, flat), backend_(backend), mesh_(mesh) {}

  const BlockParameters& block(int64_t layer) const { return views_.block(layer); }
  const EmbeddingParameters& embedding() const { return views_.embedding(); }
  const HeadParameters& head() const { return views_.head(); }

  void begin_micro_batch(MicroBatch which) { micro_batch_ = which; }
  // Backward wrote the last gradient of the block: on the last micro-batch its reduction over the data-parallel group starts.
  void finished(int64_t layer);
  const FlatViews& views() const { return views_; }

 private:
  FlatViews views_;
  Backend& backend_;
  const Mesh& mesh_;
  MicroBatch micro_batch_ = MicroBatch::last;
};

// Draws every parameter into `masters` (f32, flat), keyed by seed, name and global element, and clears the padding.
void initialise(const FlatLayout& layout, uint64_t seed, Backend& backend, Tensor masters);

}  // namespace trireme
