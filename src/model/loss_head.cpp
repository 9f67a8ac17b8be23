#include "model/loss_head.h"

#include <algorithm>

namespace trireme {
namespace {

// The loss head holds logits for at most min(full speed, half a micro-batch) rows at a time. The half is rounded up so that GEMMs
// can be in FP8.
int64_t rows_of_chunk(int64_t rows, const Backend& backend) {
  return std::min(backend.full_speed_rows(), round_up(ceil_div(rows, 2), Fp8Settings::kMultiple));
}

}  // namespace

LossHead::LossHead(const Dims& d, const Backend& backend) : chunk_rows_(rows_of_chunk(d.N(), backend)) {}

LossHead::Chunk LossHead::take_chunk(const Context& context, int64_t rows) const {
  const auto per_row = [&](const char* name) { return context.take_f32(name, {rows}); };
  return {.logits = context.take("logits", {rows, context.dims.V_padded}),
          .row_max = per_row("row_max"),
          .row_sum = per_row("row_sum"),
          .target_logit = per_row("target_logit"),
          .part_max = context.tp.size() > 1 ? per_row("part_max") : Tensor{}};
}

Tensor LossHead::final_norm(const Context& context, const HeadParameters& weights, const PendingSum& in, Saved& saved) const {
  const Dims& d = context.dims;
  const bool has_mean = context.model.normalization != Normalization::rmsnorm;
  saved = {.sum = context.take("final_sum", {d.R, d.C}),
           .mean = has_mean ? context.take_f32("final_mean", {d.R}) : Tensor{},
           .rstd = context.take_f32("final_rstd", {d.R}),
           .d_normed = {}};
  const Tensor normed = context.take("final_normed", {d.R, d.C});
  context.backend.run(kCompute, ResidualNormForward{.kind = norm_kind(context.model.normalization),
                                                    .epsilon = static_cast<float>(context.model.layernorm_epsilon),
                                                    .residual = in.residual,
                                                    .branch = in.branch,
                                                    .branch2 = in.branch2,
                                                    .dropout = in.dropout,
                                                    .dropout2 = in.dropout2,
                                                    .weight = weights.norm_weight,
                                                    .bias = weights.norm_bias,
                                                    .sum = saved.sum,
                                                    .out = normed,
                                                    .mean = saved.mean,
                                                    .rstd = saved.rstd});
  return normed;
}

LossHead::Saved LossHead::forward(const Context& context, const HeadParameters& weights, const HeadParameters& grads,
                                  const PendingSum& in, Tensor scalars) const {
  const Dims& d = context.dims;
  Saved saved;
  const Tensor normed = final_norm(context, weights, in, saved);
  const Tensor all_normed = context.linear.all_rows(normed);
  if (context.mode == Mode::evaluation) {
    losses_and_grads(context, weights, grads, all_normed, {}, scalars);
    return saved;
  }
  saved.d_normed = context.take("final_d_normed", {d.R, d.C});
  const Tensor d_normed = context.linear.row_sums(saved.d_normed);
  losses_and_grads(context, weights, grads, all_normed, d_normed, scalars);
  context.linear.sum_rows(d_normed, saved.d_normed);
  return saved;
}

// d_normed is absent in evaluation.
void LossHead::losses_and_grads(const Context& context, const HeadParameters& weights, const HeadParameters& grads,
                                Tensor all_normed, Tensor d_normed, Tensor scalars) const {
  const Dims& d = context.dims;
  const Tensor all_losses = context.take_f32("losses", {d.N()});
  for (int64_t begin = 0; begin < d.N(); begin += chunk_rows_) {
    const int64_t rows = std::min(chunk_rows_, d.N() - begin);
    const Chunk chunk = take_chunk(context, rows);
    const Operand normed = context.linear.quantized_for_both({}, all_normed.rows(begin, rows));
    context.backend.run(kCompute, LinearForward{.x = normed, .weight = weights.head, .out = chunk.logits});
    cross_entropy(context,
                  {.vocabulary = d.V_here(),
                   .write_grad = d_normed ? WriteGrad::yes : WriteGrad::no,
                   .targets = context.batch.targets.rows(begin, rows),
                   .row_max = chunk.row_max,
                   .row_sum = chunk.row_sum,
                   .target_logit = chunk.target_logit,
                   .logits = chunk.logits,
                   .losses = all_losses.rows(begin, rows),
                   .scalars = scalars},
                  chunk.part_max);
    if (!d_normed) continue;
    const Operand d_logits = context.linear.quantized_output_grad({}, chunk.logits);
    context.backend.run(kCompute, LinearWeightGrad{.sum = begin == 0 ? context.linear.weight_grads() : GradSum::adds,
                                                   .x = normed,
                                                   .d_out = d_logits,
                                                   .d_weight = grads.head.tensor});
    context.backend.run(kCompute, LinearInputGrad{.d_out = d_logits, .weight = weights.head, .d_x = d_normed.rows(begin, rows)});
  }
}

LossHead::RowScores LossHead::score(const Context& context, const HeadParameters& weights, const PendingSum& in,
                                    const AskedRows& asked, Tensor scalars) const {
  const Dims& d = context.dims;
  const int64_t M = asked.rows.count();
  Saved unused;
  const Tensor all_normed = final_norm(context, weights, in, unused), normed = context.take("asked_normed", {M, d.C});
  // Rows of a table by number are what an embedding returns.
  context.backend.run(kCompute,
                      EmbeddingForward{.tokens = asked.rows, .positions = asked.rows, .word = all_normed, .out = normed});
  const RowScores scores{.losses = context.take_f32("losses", {M}),
                         .row_max = context.take_f32("row_max", {M}),
                         .target_logit = context.take_f32("target_logit", {M})};
  const int64_t most = std::min(chunk_rows_, M);
  const Chunk chunk = take_chunk(context, most);
  for (int64_t begin = 0; begin < M; begin += most) {
    const int64_t rows = std::min(most, M - begin);
    const auto part = [&](Tensor tensor) { return tensor.rows(begin, rows); };
    const Tensor logits = chunk.logits.rows(0, rows);
    context.backend.run(kCompute, LinearForward{.x = part(normed), .weight = weights.head, .out = logits});
    cross_entropy(context,
                  {.vocabulary = d.V_here(),
                   .write_grad = WriteGrad::no,
                   .targets = part(asked.targets),
                   .row_max = part(scores.row_max),
                   .row_sum = chunk.row_sum.rows(0, rows),
                   .target_logit = part(scores.target_logit),
                   .logits = logits,
                   .losses = part(scores.losses),
                   .scalars = scalars},
                  chunk.part_max ? chunk.part_max.rows(0, rows) : Tensor{});
  }
  return scores;
}

void LossHead::cross_entropy(const Context& context, const CrossEntropy& op, Tensor part_max) const {
  if (context.tp.size() == 1) return context.backend.run(kCompute, op);
  CrossEntropyStats stats = op.stats();
  CrossEntropyGrad grad = op.grad();
  stats.first_column = grad.first_column = context.dims.V_first;
  context.backend.run(kCompute, stats);
  // The statistics of the whole vocabulary from those of its parts.
  context.backend.run(kCompute, Copy{.from = op.row_max, .to = part_max});
  context.tp.all_reduce(kCompute, op.row_max, Reduce::max);
  context.backend.run(kCompute, RescaleSums{.part_max = part_max, .row_max = op.row_max, .row_sum = op.row_sum});
  context.tp.all_reduce(kCompute, op.row_sum, Reduce::sum);
  context.tp.all_reduce(kCompute, op.target_logit, Reduce::sum);
  context.backend.run(kCompute, grad);
}

StreamGrad LossHead::final_norm_backward(const Context& context, const Saved& saved, const HeadParameters& weights,
                                         const HeadParameters& grads, const PendingBranches& before) const {
  return norm_backward(context,
                       {.sum = saved.sum,
                        .weight = weights.norm_weight,
                        .mean = saved.mean,
                        .rstd = saved.rstd,
                        .d_out = saved.d_normed,
                        .d_weight = grads.norm_weight,
                        .d_bias = grads.norm_bias},
                       before);
}

}  // namespace trireme
