// The shape alphabet of one micro-batch of a model.
#pragma once

#include "base/error.h"
#include "config/settings.h"
#include "tensor/dtype.h"

namespace trireme {

struct Dims {
  int64_t B = 0, T = 0, C = 0, F = 0, H = 0, G = 0, D = 0, L = 0;
  int64_t V = 0;         // true vocabulary
  int64_t V_padded = 0;  // rows of the word embedding and the head
  int64_t P = 0;         // positions with a learned embedding

  int64_t N() const { return B * T; }
  int64_t qkv_width() const { return (H + 2 * G) * D; }
};

inline Dims dims_of(const ModelSettings& model, int64_t batch, int64_t time) {
  return {.B = batch,
          .T = time,
          .C = model.hidden_size,
          .F = model.ffn_hidden_size,
          .H = model.num_attention_heads,
          .G = model.groups(),
          .D = model.head_width(),
          .L = model.num_layers,
          .V = model.vocab_size,
          .V_padded = model.padded_vocabulary(),
          .P = model.max_position_embeddings};
}

inline bool is_gated(MlpActivation activation) { return activation == MlpActivation::swiglu; }

inline DType activation_dtype(Precision precision) { return precision == Precision::bf16 ? DType::bf16 : DType::f32; }

}  // namespace trireme
