// The shape alphabet of one micro-batch of a model, as one tensor-parallel rank sees it: heads, feed-forward channels and the
// vocabulary are cut over the ranks.
#pragma once

#include <algorithm>

#include "base/error.h"
#include "config/settings.h"
#include "tensor/dtype.h"

namespace trireme {

struct Dims {
  int64_t B = 0, T = 0, C = 0, F = 0, H = 0, G = 0, D = 0, L = 0;
  int64_t V = 0;         // true vocabulary, of all ranks
  int64_t V_padded = 0;  // rows of the word embedding and the head
  int64_t V_first = 0;   // the token of the first of them
  int64_t H_first = 0;   // the first query head, of all ranks
  int64_t P = 0;         // positions with a learned embedding

  int64_t N() const { return B * T; }
  int64_t qkv_width() const { return (H + 2 * G) * D; }
  int64_t V_here() const { return std::clamp<int64_t>(V - V_first, 0, V_padded); }  // true tokens among the rows
};

inline Dims dims_of(const ModelSettings& model, int64_t batch, int64_t time, int tp_rank = 0, int tp_size = 1) {
  const int64_t heads = div_exact(model.num_attention_heads, tp_size);
  const int64_t vocabulary_rows = div_exact(model.padded_vocabulary(), tp_size);
  return {.B = batch,
          .T = time,
          .C = model.hidden_size,
          .F = div_exact(model.ffn_hidden_size, tp_size),
          .H = heads,
          .G = div_exact(model.groups(), tp_size),
          .D = model.head_width(),
          .L = model.num_layers,
          .V = model.vocab_size,
          .V_padded = vocabulary_rows,
          .V_first = tp_rank * vocabulary_rows,
          .H_first = tp_rank * heads,
          .P = model.max_position_embeddings};
}

inline bool is_gated(MlpActivation activation) { return activation == MlpActivation::swiglu; }

inline DType activation_dtype(Precision precision) { return precision == Precision::bf16 ? DType::bf16 : DType::f32; }

}  // namespace trireme
