#include "model/gpt.h"

namespace trireme {

Gpt::Gpt(const ModelSettings& model, const Dims& dims, DType dtype, Backend& backend, const Mesh& mesh, int64_t slots,
         Arena& activations, Arena& scratch)
    : model_(model),
      dims_(dims),
      backend_(backend),
      mesh_(mesh),
      table_(model, dims, dtype, slots, activations, scratch),
      head_(model, dims, dtype, activations, scratch, slots) {
  for (int64_t slot = 0; slot < slots; ++slot)
    batches_.push_back({.tokens = activations.take({dims.N()}, DType::i32),
                        .targets = activations.take({dims.N()}, DType::i32),
                        .positions = activations.take({dims.N()}, DType::i32),
                        .row_keys = activations.take({dims.N()}, DType::i64)});
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

PendingSum Gpt::entered(const Context& context, int64_t slot, int64_t layer) const {
  if (layer == 0) return {.residual = table_.block(slot, 0).sum1};
  return block_output(context, layer - 1, table_.block(slot, layer - 1), table_.workspace());
}

PendingSum Gpt::forward_blocks(const Context& context, int64_t slot, const Weights& weights) const {
  embedding_forward(context, weights.acquire_embedding(), table_.block(slot, 0).sum1);
  PendingSum stream = entered(context, slot, 0);
  for (int64_t layer = 0; layer < dims_.L; ++layer)
    stream = block_forward(context, layer, weights.acquire(layer), table_.block(slot, layer), table_.workspace(), stream);
  return stream;
}

void Gpt::forward(int64_t slot, const Weights& weights, const Grads& grads, Tensor scalars) const {
  const Context training = context(slot, Mode::training);
  const PendingSum stream = forward_blocks(training, slot, weights);
  head_.forward(training, slot, weights.acquire_head(), grads.head(), stream, scalars);
}

void Gpt::evaluate(int64_t slot, const Weights& weights, const Grads& grads, Tensor scalars) const {
  const Context evaluation = context(slot, Mode::evaluation);
  const PendingSum stream = forward_blocks(evaluation, slot, weights);
  head_.forward(evaluation, slot, weights.acquire_head(), grads.head(), stream, scalars);
}

void Gpt::recompute(const Context& context, int64_t slot, int64_t layer, const Weights& weights) const {
  const int64_t begin = table_.plan(layer).group_begin;
  PendingSum stream{.residual = table_.block(slot, begin).sum1};
  for (int64_t i = begin; i <= layer; ++i)
    stream = block_forward(context, i, weights.acquire(i), table_.block(slot, i), table_.workspace(), stream,
                           i == layer ? BlockOutput::no : BlockOutput::yes);
}

void Gpt::backward(int64_t slot, const Weights& weights, Grads& grads) const {
  const Context training = context(slot, Mode::training);
  const BlockWorkspace& w = table_.workspace();
  PendingGrad gradient =
      head_.final_norm_backward(training, slot, weights.acquire_head(), grads.head(), w, entered(training, slot, dims_.L));
  grads.finished_head();
  for (int64_t layer = dims_.L - 1; layer >= 0; --layer) {
    const BlockActivations& a = table_.block(slot, layer);
    const bool ends_group = layer == dims_.L - 1 || table_.plan(layer + 1).group_begin != table_.plan(layer).group_begin;
    if (table_.plan(layer).recomputed && ends_group) recompute(training, slot, layer, weights);
    if (table_.rebuilds()) block_rebuild(training, weights.acquire(layer), a);
    gradient = block_backward(training, layer, weights.acquire(layer), grads.block(layer), a, w, gradient,
                              entered(training, slot, layer));
    grads.finished(layer);
  }
  embedding_backward(training, grads.embedding(), gradient.d_sum);
  grads.finished_embedding();
}

}  // namespace trireme
