#include "model/scorer.h"

#include <algorithm>
#include <exception>

#include "data/batch/batch.h"
#include "model/embedding.h"

namespace trireme {
namespace {

// Rows of the loss head come in multiples of this, so that its GEMMs have few different shapes.
constexpr int64_t kRowMultiple = 16;

}  // namespace

Scorer::Scorer(const ModelSettings& model, const RankShard& shard, DType dtype, Backend& backend, const Mesh& mesh,
               const Weights& weights, int64_t most_rows, Arena& arena)
    : model_(model),
      shard_(shard),
      backend_(backend),
      mesh_(mesh),
      weights_(weights),
      arena_(arena),
      pass_(model, dtype, backend, mesh, weights, arena) {
  CHECK(!model.sequence_parallel && shard.cp_size == 1 && shard.chunks == 1);
  scalars_ = arena.take({kStepScalars}, DType::f64);
  if (!shard.first_stage()) arrived_ = arena.take({most_rows, model.hidden_size}, dtype);
  if (!shard.last_stage()) leaving_ = arena.take({most_rows, model.hidden_size}, dtype);
  arena_mark_ = arena.used();
}

Scorer::~Scorer() {
  if (std::uncaught_exceptions() > 0) return;  // the others may be gone too
  try {
    backend_.wait(kCompute, sent_);
    backend_.synchronize(backend_.record(kCompute, "scored"));
  } catch (const std::exception&) {  // a rank died: the next wait reports it
  }
}

std::span<const TokenScore> Scorer::score(const ScoringBatch& batch) {
  const Context context = context_of(batch);
  PendingSum stream = enter(context);
  stream = pass_.forward(context, stream);
  scores_.clear();
  if (shard_.last_stage())
    score_rows(context, stream, batch);
  else
    leave(context, stream);
  return scores_;
}

Context Scorer::context_of(const ScoringBatch& batch) {
  const Dims d = dims_of(model_, batch.B, batch.T, shard_);
  CHECK_EQ(batch.rows.size(), batch.targets.size());
  arena_.rewind(arena_mark_);
  positions_.resize(static_cast<size_t>(d.N()));
  for (int64_t n = 0; n < d.N(); ++n) positions_[static_cast<size_t>(n)] = static_cast<int32_t>(n % d.T);
  return pass_.begin(d, batch.tokens, positions_);
}

PendingSum Scorer::enter(const Context& context) {
  if (shard_.first_stage()) return {.residual = embedding_forward(context, weights_.acquire_embedding())};
  const Tensor stream = arrived_.rows(0, context.dims.R);
  backend_.wait(kReceiveForward, backend_.record(kCompute, "buffer_free"));
  mesh_.pp->receive(kReceiveForward, stream, mesh_.pp->rank() - 1);
  received_ = backend_.record(kReceiveForward, "received");
  backend_.wait(kCompute, received_);
  return {.residual = stream};
}

void Scorer::leave(const Context& context, const PendingSum& stream) {
  const Tensor out = leaving_.rows(0, context.dims.R);
  backend_.wait(kCompute, sent_);
  backend_.run(kCompute,
               ResidualAdd{.residual = stream.residual, .branch = stream.branch, .branch2 = stream.branch2, .sum = out});
  backend_.wait(kSendForward, backend_.record(kCompute, "ready_to_send"));
  mesh_.pp->send(kSendForward, out, mesh_.pp->rank() + 1);
  sent_ = backend_.record(kSendForward, "sent");
}

void Scorer::score_rows(const Context& context, const PendingSum& stream, const ScoringBatch& batch) {
  const int64_t asked = std::ssize(batch.rows), M = round_up(std::max<int64_t>(asked, 1), kRowMultiple);
  rows_ = batch.rows, targets_ = batch.targets;
  rows_.resize(static_cast<size_t>(M), 0);
  targets_.resize(static_cast<size_t>(M), kMaskedTarget);
  const Tensor rows = arena_.take({M}, DType::i32), targets = arena_.take({M}, DType::i32);
  backend_.upload(kCompute, rows_.data(), rows);
  backend_.upload(kCompute, targets_.data(), targets);
  backend_.run(kCompute, Fill{.value = 0, .out = scalars_});
  const LossHead head(context.dims, backend_);
  const LossHead::RowScores found = head.score(context, weights_.acquire_head(), stream, {rows, targets}, scalars_);
  for (auto [from, to] :
       {std::pair{found.losses, &losses_}, std::pair{found.row_max, &largest_}, std::pair{found.target_logit, &of_target_}}) {
    to->resize(static_cast<size_t>(M));
    backend_.download(kCompute, from, to->data());
  }
  backend_.synchronize(backend_.record(kCompute, "scores_read"));
  for (size_t i = 0; i < static_cast<size_t>(asked); ++i)
    scores_.push_back({.log_likelihood = -losses_[i], .is_likeliest = of_target_[i] >= largest_[i]});
}

}  // namespace trireme
