// The shape alphabet of one micro-batch of a model, as one rank sees it: heads, feed-forward channels and the vocabulary are
// cut over the tensor-parallel ranks, layers over the pipeline stages.
#pragma once

#include <algorithm>

#include "base/error.h"
#include "config/settings.h"
#include "tensor/dtype.h"

namespace trireme {

// Where a rank stands among those that train one model.
struct RankShard {
  int tp_rank = 0, tp_size = 1;  // who holds which part of a parameter
  int pp_rank = 0, pp_size = 1;  // and of which layers
  int dp_rank = 0, dp_size = 1;  // who does which part of the optimizer's work

  bool first_stage() const { return pp_rank == 0; }
  bool last_stage() const { return pp_rank == pp_size - 1; }
};

struct Dims {
  int64_t B = 0, T = 0, C = 0, F = 0, H = 0, G = 0, D = 0;
  int64_t L = 0;         // layers of this stage
  int64_t L_first = 0;   // and the number of the first of them
  int64_t V = 0;         // true vocabulary, of all ranks
  int64_t V_padded = 0;  // rows of the word embedding and the head
  int64_t V_first = 0;   // the token of the first of them
  int64_t H_first = 0;   // the first query head, of all ranks
  int64_t P = 0;         // positions with a learned embedding

  int64_t N() const { return B * T; }
  int64_t qkv_width() const { return (H + 2 * G) * D; }
  int64_t V_here() const { return std::clamp<int64_t>(V - V_first, 0, V_padded); }  // true tokens among the rows
};

inline Dims dims_of(const ModelSettings& model, int64_t batch, int64_t time, const RankShard& shard = {}) {
  const int64_t heads = div_exact(model.num_attention_heads, shard.tp_size);
  const int64_t layers = div_exact(model.num_layers, shard.pp_size);
  const int64_t vocabulary_rows = div_exact(model.padded_vocabulary(), shard.tp_size);
  return {.B = batch,
          .T = time,
          .C = model.hidden_size,
          .F = div_exact(model.ffn_hidden_size, shard.tp_size),
          .H = heads,
          .G = div_exact(model.groups(), shard.tp_size),
          .D = model.head_width(),
          .L = layers,
          .L_first = shard.pp_rank * layers,
          .V = model.vocab_size,
          .V_padded = vocabulary_rows,
          .V_first = shard.tp_rank * vocabulary_rows,
          .H_first = shard.tp_rank * heads,
          .P = model.max_position_embeddings};
}

inline bool is_gated(MlpActivation activation) { return activation == MlpActivation::swiglu; }

inline DType activation_dtype(Precision precision) { return precision == Precision::bf16 ? DType::bf16 : DType::f32; }

}  // namespace trireme
