#include "model/gpt.h"

namespace trireme {

Gpt::Gpt(const ModelSettings& model, const RankShard& shard, const Dims& dims, DType dtype, const Fp8State* fp8, Backend& backend,
         const Mesh& mesh, int64_t slots, Arena& activations, Arena& scratch)
    : model_(model),
      shard_(shard),
      dims_(dims),
      backend_(backend),
      mesh_(mesh),
      table_(model, dims, dtype, fp8, slots, activations, scratch) {
  const auto stream = [&](Arena& arena) { return arena.take({dims.N(), dims.C}, dtype); };
  if (shard.last_stage()) head_.emplace(model, dims, dtype, backend, activations, scratch, slots);
  for (int64_t slot = 0; slot < slots; ++slot) {
    batches_.push_back({.tokens = activations.take({dims.N()}, DType::i32),
                        .targets = activations.take({dims.N()}, DType::i32),
                        .positions = activations.take({dims.N()}, DType::i32),
                        .row_keys = activations.take({dims.N()}, DType::i64)});
    if (!shard.last_stage()) outputs_.push_back(stream(activations));
  }
  if (!shard.first_stage()) d_input_ = stream(scratch);
  if (!shard.last_stage()) d_output_ = stream(scratch);
}

Context Gpt::context(int64_t slot, Mode mode) const {
  return {.backend = backend_,
          .tp = *mesh_.tp,
          .linear = ParallelLinear(backend_, *mesh_.tp),
          .model = model_,
          .dims = dims_,
          .batch = batch(slot),
          .mode = mode};
}

PendingSum Gpt::entered(const Context& context, int64_t slot, int64_t i) const {
  if (i == 0) return {.residual = input(slot)};
  return block_output(context, layer(i - 1), table_.block(slot, i - 1), table_.workspace(i - 1));
}

PendingSum Gpt::forward_blocks(const Context& context, int64_t slot, const Weights& weights) const {
  if (shard_.first_stage()) embedding_forward(context, weights.acquire_embedding(), input(slot));
  PendingSum stream = entered(context, slot, 0);
  for (int64_t i = 0; i < dims_.L; ++i)
    stream = block_forward(context, layer(i), weights.acquire(layer(i)), table_.block(slot, i), table_.workspace(i), stream);
  return stream;
}

// Nothing is pending on what goes to another stage.
void Gpt::finish_output(const Context& context, int64_t slot, const PendingSum& stream) const {
  context.backend.run(kCompute, ResidualAdd{.residual = stream.residual,
                                            .branch = stream.branch,
                                            .branch2 = stream.branch2,
                                            .dropout = stream.dropout,
                                            .dropout2 = stream.dropout2,
                                            .sum = output(slot)});
}

void Gpt::forward(int64_t slot, const Weights& weights, const Grads& grads, Tensor scalars) const {
  const Context training = context(slot, Mode::training);
  const PendingSum stream = forward_blocks(training, slot, weights);
  if (!head_) return finish_output(training, slot, stream);
  head_->forward(training, slot, weights.acquire_head(), grads.head(), stream, scalars);
}

void Gpt::evaluate(int64_t slot, const Weights& weights, const Grads& grads, Tensor scalars) const {
  const Context evaluation = context(slot, Mode::evaluation);
  const PendingSum stream = forward_blocks(evaluation, slot, weights);
  if (!head_) return finish_output(evaluation, slot, stream);
  head_->forward(evaluation, slot, weights.acquire_head(), grads.head(), stream, scalars);
}

void Gpt::recompute(const Context& context, int64_t slot, int64_t last, const Weights& weights) const {
  const int64_t begin = table_.plan(last).group_begin;
  PendingSum stream{.residual = table_.block(slot, begin).sum1};
  for (int64_t i = begin; i <= last; ++i)
    stream = block_forward(context, layer(i), weights.acquire(layer(i)), table_.block(slot, i), table_.workspace(i), stream,
                           i == last ? BlockOutput::no : BlockOutput::yes);
}

// The gradient of the output, from the stage behind this one, and of the branches that were added to it.
PendingGrad Gpt::received_gradient(const Context& context, int64_t slot) const {
  const PendingSum pending = entered(context, slot, dims_.L);
  const bool as_received = !context.hidden_dropout_active() && !pending.d_branch.fp8;
  if (as_received) return {.d_sum = d_output_, .d_branch = d_output_, .d_branch2 = d_output_};
  context.backend.run(kCompute, DropoutBackward{.d_sum = d_output_, .dropout = pending.dropout, .d_branch = pending.d_branch});
  if (pending.branch2 && context.hidden_dropout_active())
    context.backend.run(kCompute,
                        DropoutBackward{.d_sum = d_output_, .dropout = pending.dropout2, .d_branch = pending.d_branch2});
  return {.d_sum = d_output_, .d_branch = pending.d_branch, .d_branch2 = pending.d_branch2};
}

void Gpt::backward(int64_t slot, const Weights& weights, Grads& grads) const {
  const Context training = context(slot, Mode::training);
  PendingGrad gradient = head_ ? head_->final_norm_backward(training, slot, weights.acquire_head(), grads.head(),
                                                            table_.workspace(dims_.L - 1), entered(training, slot, dims_.L))
                               : received_gradient(training, slot);
  grads.finished_head();
  for (int64_t i = dims_.L - 1; i >= 0; --i) {
    const BlockActivations& a = table_.block(slot, i);
    const bool ends_group = i == dims_.L - 1 || table_.plan(i + 1).group_begin != table_.plan(i).group_begin;
    if (table_.plan(i).recomputed && ends_group) recompute(training, slot, i, weights);
    if (table_.rebuilds()) block_rebuild(training, weights.acquire(layer(i)), a);
    gradient = block_backward(training, layer(i), weights.acquire(layer(i)), grads.block(layer(i)), a, table_.workspace(i),
                              gradient, entered(training, slot, i));
    grads.finished(layer(i));
  }
  if (shard_.first_stage())
    embedding_backward(training, grads.embedding(), gradient.d_sum);
  else
    backend_.run(kCompute, Copy{.from = gradient.d_sum, .to = d_input_});
  grads.finished_embedding();
}

}  // namespace trireme
