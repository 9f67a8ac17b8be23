// What the layers of a model share while they work on one micro-batch.
#pragma once

#include "backend/backend.h"
#include "model/dims.h"
#include "model/parallel_linear.h"

namespace trireme {

// A micro-batch on the device.
struct DeviceBatch {
  Tensor tokens;           // [N] i32
  Tensor targets;          // [N] i32, -1 where masked
  Tensor positions;        // [N] i32
  Tensor row_keys;         // [N] i64, what dropout is keyed by
  Tensor document_starts;  // [N] i32: first position of the document; present where attention stays within documents
};

// Keys and values of earlier positions, for generation.
struct KeyValueCache {
  Tensor packed;       // [B,positions,2G,D]: keys, then values
  int64_t length = 0;  // positions filled
};

enum class Mode : uint8_t { training, evaluation };  // evaluation: no dropout

struct Context {
  Backend& backend;
  TensorSource& memory;
  Communicator& tp;
  Communicator& cp;
  ParallelLinear linear;
  const ModelSettings& model;
  Dims dims;
  DType dtype;  // of activations
  DeviceBatch batch;
  Mode mode = Mode::training;

  Tensor take(const char* name, const Shape& shape) const { return memory.take(name, shape, dtype); }
  Tensor take_f32(const char* name, const Shape& shape) const { return memory.take(name, shape, DType::f32); }

  // Dropout sites: 0 is the embedding, then two per layer; attention has one per head, in the upper half of the numbers.
  Dropout embedding_dropout() const { return hidden(0); }
  Dropout embedding_dropout_of_all_rows() const { return dropout(model.hidden_dropout, 0, batch.row_keys); }
  Dropout attention_branch_dropout(int64_t layer) const { return hidden(static_cast<uint32_t>(1 + 2 * layer)); }
  Dropout mlp_branch_dropout(int64_t layer) const { return hidden(static_cast<uint32_t>(2 + 2 * layer)); }
  Dropout attention_dropout(int64_t layer) const {
    return dropout(model.attention_dropout,
                   0x80000000u + static_cast<uint32_t>(layer) * 0x1000u + static_cast<uint32_t>(dims.H_first), batch.row_keys);
  }
  bool hidden_dropout_active() const { return mode == Mode::training && model.hidden_dropout > 0; }

 private:
  // For the rows of the residual stream on this rank.
  Dropout hidden(uint32_t site) const {
    return dropout(model.hidden_dropout, site, dims.R < dims.N() ? batch.row_keys.rows(dims.R_first, dims.R) : batch.row_keys);
  }
  Dropout dropout(double probability, uint32_t site, Tensor row_keys) const {
    if (mode == Mode::evaluation || probability == 0) return {};
    return {.probability = static_cast<float>(probability), .seed = model.seed, .site = site, .row_keys = row_keys};
  }
};

inline NormKind norm_kind(Normalization normalization) {
  switch (normalization) {
    case Normalization::layernorm:
      return NormKind::layernorm;
    case Normalization::layernorm1p:
      return NormKind::layernorm1p;
    case Normalization::rmsnorm:
      return NormKind::rmsnorm;
  }
  return NormKind::layernorm;
}

}  // namespace trireme
