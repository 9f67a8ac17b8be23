#include "model/loss_head.h"

#include <algorithm>

namespace trireme {
namespace {

// As many as make products fast, but no more than half of the micro-batch, which is rounded up so that products can be in FP8.
int64_t rows_of_chunk(int64_t rows, const Backend& backend) {
  return std::min(backend.full_speed_rows(), round_up(ceil_div(rows, 2), Fp8Settings::kMultiple));
}

}  // namespace

LossHead::LossHead(const ModelSettings& model, const Dims& d, DType dtype, const Backend& backend, const Fp8State* fp8,
                   const ModelMemory& memory, int64_t slots)
    : chunk_rows_(rows_of_chunk(d.N(), backend)) {
  Arena &activations = memory.activations, &scratch = memory.scratch;
  const bool has_mean = model.normalization != Normalization::rmsnorm;
  for (int64_t i = 0; i < slots; ++i) {
    Slot slot;
    slot.sum = activations.take({d.R, d.C}, dtype);
    slot.normed = activations.take({d.R, d.C}, dtype);
    if (has_mean) slot.mean = activations.take({d.R}, DType::f32);
    slot.rstd = activations.take({d.R}, DType::f32);
    slot.d_normed = activations.take({d.R, d.C}, dtype);
    slots_.push_back(slot);
  }
  logits_ = memory.logits.take({chunk_rows_, d.V_padded}, dtype);
  if (fp8 != nullptr && fp8->has_head()) {
    const auto add = [&](Fp8Copy& room, int64_t width, DType fp8_dtype) {
      room.values = memory.logits.take({chunk_rows_ * width}, fp8_dtype);
      room.transposed = memory.logits.take({chunk_rows_ * width}, fp8_dtype);
    };
    add(input_, d.C, fp8->input_dtype());
    add(output_grad_, d.V_padded, fp8->output_grad_dtype());
    fp8->assign_head_input(input_);
    fp8->assign_head_output_grad(output_grad_);
  }
  row_max_ = scratch.take({chunk_rows_}, DType::f32);
  row_sum_ = scratch.take({chunk_rows_}, DType::f32);
  target_logit_ = scratch.take({chunk_rows_}, DType::f32);
  if (model.tensor_model_parallel_size > 1) part_max_ = scratch.take({chunk_rows_}, DType::f32);
  losses_ = scratch.take({d.N()}, DType::f32);
}

void LossHead::forward(const Context& context, int64_t slot_index, const HeadParameters& weights, const HeadParameters& grads,
                       const PendingSum& in, Tensor scalars) const {
  const Dims& d = context.dims;
  const Slot& slot = slots_[static_cast<size_t>(slot_index)];
  const bool training = context.mode == Mode::training;
  context.backend.run(kCompute, ResidualNormForward{.kind = norm_kind(context.model.normalization),
                                                    .epsilon = static_cast<float>(context.model.layernorm_epsilon),
                                                    .residual = in.residual,
                                                    .branch = in.branch,
                                                    .branch2 = in.branch2,
                                                    .dropout = in.dropout,
                                                    .dropout2 = in.dropout2,
                                                    .weight = weights.norm_weight,
                                                    .bias = weights.norm_bias,
                                                    .sum = slot.sum,
                                                    .out = slot.normed,
                                                    .mean = slot.mean,
                                                    .rstd = slot.rstd});
  const Tensor all_normed = context.linear.all_rows(slot.normed), d_normed = context.linear.row_sums(slot.d_normed);
  for (int64_t begin = 0; begin < d.N(); begin += chunk_rows_) {
    const int64_t rows = std::min(chunk_rows_, d.N() - begin);
    const Tensor targets = context.batch.targets.rows(begin, rows);
    const Operand normed = quantised(context, all_normed.rows(begin, rows), input_);
    const Tensor logits = logits_.rows(0, rows), losses = losses_.rows(begin, rows);
    const Tensor row_max = row_max_.rows(0, rows), row_sum = row_sum_.rows(0, rows), target_logit = target_logit_.rows(0, rows);
    context.backend.run(kCompute, LinearForward{.x = normed, .weight = weights.head, .out = logits});
    cross_entropy(context, {.vocabulary = d.V_here(),
                            .write_grad = training ? WriteGrad::yes : WriteGrad::no,
                            .targets = targets,
                            .row_max = row_max,
                            .row_sum = row_sum,
                            .target_logit = target_logit,
                            .logits = logits,
                            .losses = losses,
                            .scalars = scalars});
    if (!training) continue;
    const Operand d_logits = quantised(context, logits, output_grad_);
    context.backend.run(kCompute, LinearWeightGrad{.sum = begin == 0 ? context.linear.weight_grads() : GradSum::adds,
                                                   .x = normed,
                                                   .d_out = d_logits,
                                                   .d_weight = grads.head});
    context.backend.run(kCompute, LinearInputGrad{.d_out = d_logits, .weight = weights.head, .d_x = d_normed.rows(begin, rows)});
  }
  if (training) context.linear.sum_rows(d_normed, slot.d_normed);
}

Operand LossHead::quantised(const Context& context, Tensor matrix, const Fp8Copy& room) const {
  if (!room) return matrix;
  const int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  Operand result(matrix, room, Wide::kept);
  result.fp8.values = room.values.flat_range(0, {rows, columns});
  result.fp8.transposed = room.transposed.flat_range(0, {columns, rows});
  context.backend.run(kCompute, Quantise{.x = result});
  return result;
}

void LossHead::cross_entropy(const Context& context, const CrossEntropy& op) const {
  if (context.tp.size() == 1) return context.backend.run(kCompute, op);
  CrossEntropyStats stats = op.stats();
  CrossEntropyGrad grad = op.grad();
  stats.first_column = grad.first_column = context.dims.V_first;
  context.backend.run(kCompute, stats);
  // The statistics of the whole vocabulary from those of its parts.
  const Tensor part_max = part_max_.rows(0, op.row_max.shape[0]);
  context.backend.run(kCompute, Copy{.from = op.row_max, .to = part_max});
  context.tp.all_reduce(kCompute, op.row_max, Reduce::max);
  context.backend.run(kCompute, RescaleSums{.part_max = part_max, .row_max = op.row_max, .row_sum = op.row_sum});
  context.tp.all_reduce(kCompute, op.row_sum, Reduce::sum);
  context.tp.all_reduce(kCompute, op.target_logit, Reduce::sum);
  context.backend.run(kCompute, grad);
}

Tensor LossHead::final_norm_backward(const Context& context, int64_t slot_index, const HeadParameters& weights,
                                     const HeadParameters& grads, const BlockWorkspace& w, const PendingSum& before,
                                     const BlockGradients& before_grads) const {
  const Slot& slot = slots_[static_cast<size_t>(slot_index)];
  const PendingGradPlaces places = grad_places(context, before, w, before_grads);
  context.backend.run(kCompute, ResidualNormBackward{.kind = norm_kind(context.model.normalization),
                                                     .sum = slot.sum,
                                                     .weight = weights.norm_weight,
                                                     .mean = slot.mean,
                                                     .rstd = slot.rstd,
                                                     .d_out = slot.d_normed,
                                                     .dropout = before.dropout,
                                                     .dropout2 = before.dropout2,
                                                     .d_sum = places.d_sum,
                                                     .d_branch = places.d_branch,
                                                     .d_branch2 = places.d_branch2,
                                                     .d_weight = grads.norm_weight,
                                                     .d_bias = grads.norm_bias});
  return places.d_sum;
}

}  // namespace trireme
