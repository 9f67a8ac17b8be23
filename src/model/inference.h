// What generation and scoring share: forward passes with memory from an arena, in which nothing is kept for backward.
#pragma once

#include <span>

#include "model/block.h"
#include "tensor/arena.h"

namespace trireme {

class InferencePass {
 public:
  InferencePass(const ModelSettings& model, DType dtype, Backend& backend, const Mesh& mesh, const Weights& weights, Arena& arena)
      : model_(model), dtype_(dtype), backend_(backend), mesh_(mesh), weights_(weights), arena_(arena) {}

  // Uploads a batch; both spans must be there until the backend is synchronized.
  Context begin(const Dims& dims, std::span<const int32_t> tokens, std::span<const int32_t> positions) const;
  // The layers of this rank, each with its cache if there are any.
  PendingSum forward(const Context& context, PendingSum stream, std::span<KeyValueCache> caches = {}) const;

 private:
  const ModelSettings& model_;
  DType dtype_;
  Backend& backend_;
  const Mesh& mesh_;
  const Weights& weights_;
  Arena& arena_;
};

}  // namespace trireme
