// The shape alphabet of one micro-batch of a model, as one rank sees it: heads, feed-forward channels and the vocabulary are
// cut over the tensor-parallel ranks, layers over the pipeline stages and their chunks, positions over the context-parallel
// ranks.
#pragma once

#include <algorithm>

#include "base/error.h"
#include "config/settings.h"
#include "tensor/dtype.h"

namespace trireme {

// The coordinates of a rank in the mesh.
struct RankShard {
  int tp_rank = 0, tp_size = 1;  // cuts parameters
  int pp_rank = 0, pp_size = 1;  // cuts layers
  int dp_rank = 0, dp_size = 1;  // shards the optimizer; size 1 if every rank updates everything
  int copy = 0;                  // which replica this is, if every rank updates everything
  int chunks = 1;                // of layers per stage
  int cp_rank = 0, cp_size = 1;  // cuts positions of a sequence

  bool first_stage() const { return pp_rank == 0; }
  bool last_stage() const { return pp_rank == pp_size - 1; }
  bool embeds(int64_t chunk) const { return first_stage() && chunk == 0; }            // the model begins with this chunk
  bool has_head(int64_t chunk) const { return last_stage() && chunk == chunks - 1; }  // and ends with it
};

struct LayerRange {
  int64_t first = 0, count = 0;
};

// The layers of a chunk, which is number chunk * pp_size + pp_rank among all chunks of the model.
inline LayerRange layers_of(const ModelSettings& model, const RankShard& shard, int64_t chunk) {
  const auto in_chunk = [&](int64_t stage) { return div_exact(model.layers_of_stage(shard.pp_size, stage), shard.chunks); };
  int64_t first = chunk * div_exact(model.num_layers, shard.chunks);
  for (int64_t stage = 0; stage < shard.pp_rank; ++stage) first += in_chunk(stage);
  return {first, in_chunk(shard.pp_rank)};
}

struct Dims {
  int64_t B = 0, T = 0;  // T: positions of a sequence on this rank
  int64_t C = 0, F = 0, H = 0, G = 0, D = 0;
  int64_t L = 0;         // layers of this chunk
  int64_t L_first = 0;   // number of the first of them
  int64_t V = 0;         // true vocabulary, of all ranks
  int64_t V_padded = 0;  // rows of the word embedding and the head
  int64_t V_first = 0;   // the token of the first of them
  int64_t H_first = 0;   // the first query head, of all ranks
  int64_t P = 0;         // positions with a learned embedding
  int64_t R = 0;         // rows of the residual stream on this rank: N, or N/tp with sequence parallelism
  int64_t R_first = 0;   // the first of them
  int64_t CP = 1;        // ranks that share a sequence

  int64_t N() const { return B * T; }
  int64_t qkv_width() const { return (H + 2 * G) * D; }
  int64_t V_here() const { return std::clamp<int64_t>(V - V_first, 0, V_padded); }  // true tokens among the rows
};

// For `batch` sequences of length `time`.
inline Dims dims_of(const ModelSettings& model, int64_t batch, int64_t time, const RankShard& shard = {}, int64_t chunk = 0) {
  const int64_t heads = div_exact(model.num_attention_heads, shard.tp_size);
  const LayerRange layers = layers_of(model, shard, chunk);
  const int64_t vocabulary_rows = div_exact(model.padded_vocabulary(), shard.tp_size);
  const int64_t positions = div_exact(time, shard.cp_size);
  const int64_t stream_rows = div_exact(batch * positions, model.sequence_parallel ? shard.tp_size : 1);
  return {.B = batch,
          .T = positions,
          .C = model.hidden_size,
          .F = div_exact(model.ffn_hidden_size, shard.tp_size),
          .H = heads,
          .G = div_exact(model.groups(), shard.tp_size),
          .D = model.head_width(),
          .L = layers.count,
          .L_first = layers.first,
          .V = model.vocab_size,
          .V_padded = vocabulary_rows,
          .V_first = shard.tp_rank * vocabulary_rows,
          .H_first = shard.tp_rank * heads,
          .P = model.max_position_embeddings,
          .R = stream_rows,
          .R_first = model.sequence_parallel ? shard.tp_rank * stream_rows : 0,
          .CP = shard.cp_size};
}

inline bool is_gated(MlpActivation activation) { return activation == MlpActivation::swiglu; }

inline DType activation_dtype(Precision precision) {
  return precision == Precision::f32 ? DType::f32 : precision == Precision::bf16 ? DType::bf16 : DType::f16;
}
// Of a model that is only read: bf16 where the backend has no f16.
inline DType inference_dtype(Precision precision, bool has_f16) {
  return precision == Precision::f16 && !has_f16 ? DType::bf16 : activation_dtype(precision);
}

}  // namespace trireme
