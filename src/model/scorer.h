// Scoring: how likely a trained model finds given tokens after others. One forward pass over several sequences, without dropout;
// the loss head works only on the rows that are asked for.
#pragma once

#include <span>

#include "model/inference.h"
#include "model/loss_head.h"
#include "model/weights.h"

namespace trireme {

// What one pass computes, in host memory. Sequences are padded at their end, where causal attention hides it from them.
struct ScoringBatch {
  int64_t B = 0, T = 0;
  std::vector<int32_t> tokens;   // [B*T]
  std::vector<int32_t> rows;     // [M] of the B*T rows; one may appear several times
  std::vector<int32_t> targets;  // [M] the token whose likelihood after each of them is asked for
};

struct TokenScore {
  float log_likelihood = 0;
  bool is_likeliest = false;  // no token is likelier
};

// The part of the model that one rank holds: all of it, or with pipeline parallelism the layers of a stage. Layers are cut over
// tensor-parallel ranks as in training, without sequence parallelism.
class Scorer {
 public:
  // Batches have at most `most_rows` rows B*T.
  Scorer(const ModelSettings& model, const RankShard& shard, DType dtype, Backend& backend, const Mesh& mesh,
         const Weights& weights, int64_t most_rows, Arena& arena);
  ~Scorer();  // waits until the next stage has received the last batch
  Scorer(const Scorer&) = delete;
  Scorer& operator=(const Scorer&) = delete;

  // All ranks of a copy of the model make this call with the same batch. The scores are by row asked for; empty on stages before
  // the last. Valid until the next call.
  std::span<const TokenScore> score(const ScoringBatch& batch);

 private:
  Context context_of(const ScoringBatch& batch);
  PendingSum enter(const Context& context);
  void leave(const Context& context, const PendingSum& stream);
  void score_rows(const Context& context, const PendingSum& stream, const ScoringBatch& batch);

  const ModelSettings& model_;
  RankShard shard_;
  Backend& backend_;
  const Mesh& mesh_;
  const Weights& weights_;
  Arena& arena_;
  InferencePass pass_;
  Tensor scalars_;            // [kStepScalars] f64, for the sum of losses that nothing reads
  Tensor arrived_, leaving_;  // [most_rows,C] the stream between stages
  Event received_, sent_;
  int64_t arena_mark_ = 0;  // memory after it belongs to one batch
  std::vector<int32_t> positions_, rows_, targets_;
  std::vector<float> losses_, largest_, of_target_;
  std::vector<TokenScore> scores_;
};

}  // namespace trireme
