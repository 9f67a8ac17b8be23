// Generation: tokens in, logits of the next one out. Keys and values of earlier tokens stay in a cache, so each token costs one
// pass over one row.
#pragma once

#include "model/inference.h"

namespace trireme {

class Generator {
 public:
  // Room for `capacity` tokens, prompt included.
  Generator(const ModelSettings& model, DType dtype, Backend& backend, const Mesh& mesh, const Weights& weights, int64_t capacity,
            Arena& arena);

  // Appends tokens and returns the logits that follow the last of them, for the true vocabulary; valid until the next call.
  std::span<const float> feed(std::span<const int32_t> tokens);
  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }

 private:
  Tensor next_logits(const Context& context, const PendingSum& stream);

  const ModelSettings& model_;
  Backend& backend_;
  const Weights& weights_;
  Arena& arena_;
  InferencePass pass_;
  int64_t capacity_ = 0, length_ = 0;
  std::vector<KeyValueCache> caches_;  // by layer
  int64_t arena_mark_ = 0;             // memory after it belongs to one call of feed
  std::vector<int32_t> positions_;
  std::vector<float> logits_;
};

// How the next token is drawn. temperature 0 takes the likeliest; top_k 0 and top_p 1 leave nothing out.
struct SamplingSettings {
  double temperature = 0.8;
  int64_t top_k = 0;
  double top_p = 1;
  uint64_t seed = 1234;
};

// Draws a token; the draw is keyed by seed and position, so the same request gives the same text.
int32_t sample_token(std::span<const float> logits, const SamplingSettings& settings, int64_t position);

}  // namespace trireme
