#include "model/gpt.h"

#include <array>

namespace trireme {

Gpt::Gpt(const ModelSettings& model, const RankShard& shard, int64_t chunk, const Dims& dims, DType dtype, Backend& backend,
         const Mesh& mesh, const Slots& slots, const SharedWorkspace& shared, const ModelMemory& memory)
    : model_(model),
      embeds_(shard.embeds(chunk)),
      has_head_(shard.has_head(chunk)),
      first_of_stage_(chunk == 0),
      dims_(dims),
      backend_(backend),
      mesh_(mesh),
      shared_(shared),
      table_(model, dims, dtype, slots, shared, memory.activations) {
  if (has_head_) head_.emplace(model, dims, dtype, backend, shared.fp8.state, memory, slots.saved);
}

Context Gpt::context(const ChunkPass& pass, Mode mode, WeightProducts when) const {
  const bool in_pieces = model_.ub_tp_comm_overlap && !model_.fp8.enabled;  // FP8 copies are of all rows
  const ParallelLinear::Options options{.rows = shared_.block.rows,
                                        .weight_products = when,
                                        .overlap = in_pieces ? TensorOverlap::pieces : TensorOverlap::whole,
                                        .weight_grads = pass.weight_grads};
  return {.backend = backend_,
          .tp = *mesh_.tp,
          .cp = *mesh_.cp,
          .linear = ParallelLinear(backend_, *mesh_.tp, options),
          .model = model_,
          .dims = dims_,
          .batch = pass.batch,
          .mode = mode};
}

PendingSum Gpt::entered(const Context& context, const Slots& at, int64_t i) const {
  if (i == 0) return {.residual = table_.input(at)};
  return block_output(context, layer(i - 1), table_.block(at, i - 1, Pass::backward), shared_.block);
}

PendingSum Gpt::forward_blocks(const Context& context, const Slots& at, const Weights& weights) const {
  PendingSum stream{.residual = table_.input(at)};
  for (int64_t i = 0; i < dims_.L; ++i) {
    const NamedRange range(backend_, "forward of layer", layer(i));
    stream =
        block_forward(context, layer(i), weights.acquire(layer(i)), table_.block(at, i, Pass::forward), shared_.block, stream);
  }
  return stream;
}

void Gpt::forward(const ChunkPass& pass, Mode mode, Tensor input, Tensor output, const Weights& weights, const Grads& grads,
                  Tensor scalars) const {
  const Context forward = context(pass, mode);
  if (embeds_)
    embedding_forward(forward, weights.acquire_embedding(), table_.input(pass.at));
  else
    backend_.run(kCompute, Copy{.from = input, .to = table_.input(pass.at)});
  const PendingSum stream = forward_blocks(forward, pass.at, weights);
  if (head_) return head_->forward(forward, pass.at.saved, weights.acquire_head(), grads.head(), stream, scalars);
  // Nothing is pending on what goes to another chunk.
  backend_.run(kCompute, ResidualAdd{.residual = stream.residual,
                                     .branch = stream.branch,
                                     .branch2 = stream.branch2,
                                     .dropout = stream.dropout,
                                     .dropout2 = stream.dropout2,
                                     .sum = output});
}

void Gpt::recompute(const Context& context, const Slots& at, int64_t last, const Weights& weights) const {
  const int64_t begin = table_.plan(last).group_begin;
  PendingSum stream{.residual = table_.block(at, begin, Pass::recompute).sum1};
  for (int64_t i = begin; i <= last; ++i)
    stream = block_forward(context, layer(i), weights.acquire(layer(i)), table_.block(at, i, Pass::recompute), shared_.block,
                           stream, i == last ? BlockOutput::no : BlockOutput::yes);
}

Tensor Gpt::received_gradient(const Context& context, const Slots& at, Tensor d_output, BlockGradients& last) const {
  const PendingSum pending = entered(context, at, dims_.L);
  if (shared_.block.branch_grads == BranchGrads::same_as_sum) {
    static_cast<Tensor&>(last.d_mlp) = d_output;
    if (const Operand written = context.linear.written(last.d_mlp); written.fp8) backend_.run(kCompute, Quantise{.x = written});
    if (pending.branch2) last.d_attention = last.d_mlp;
    return d_output;
  }
  const PendingGradPlaces places = grad_places(context, pending, shared_.block, last);
  backend_.run(kCompute, DropoutBackward{.d_sum = d_output, .dropout = pending.dropout, .d_branch = places.d_branch});
  if (pending.branch2)
    backend_.run(kCompute, DropoutBackward{.d_sum = d_output, .dropout = pending.dropout2, .d_branch = places.d_branch2});
  return d_output;
}

void Gpt::backward(const ChunkPass& pass, WeightProducts when, Tensor d_output, Tensor d_input, const Weights& weights,
                   Grads& grads) const {
  const Context training = context(pass, Mode::training, when);
  const Slots& at = pass.at;
  const BlockWorkspace& w = shared_.block;
  BlockGradients g = table_.gradients(at, dims_.L - 1);
  Tensor d_sum = head_ ? head_->final_norm_backward(training, at.saved, weights.acquire_head(), grads.head(), w,
                                                    entered(training, at, dims_.L), g)
                       : received_gradient(training, at, d_output, g);
  const bool finishes = when != WeightProducts::later, beside = when == WeightProducts::beside;
  constexpr int64_t kTurns = SharedWorkspace::kTurns;
  std::array<Event, kTurns> events;
  const auto products_made = [&](int64_t i) -> Event& { return events[static_cast<size_t>(i % kTurns)]; };
  if (finishes && has_head_) grads.finished_head();
  for (int64_t i = dims_.L - 1; i >= 0; --i) {
    const NamedRange range(backend_, "backward of layer", layer(i));
    const BlockActivations a = table_.block(at, i, Pass::backward);
    const bool ends_group = i == dims_.L - 1 || table_.plan(i + 1).group_begin != table_.plan(i).group_begin;
    if (table_.plan(i).recomputed && ends_group) recompute(training, at, i, weights);
    if (table_.rebuilds()) block_rebuild(training, weights.acquire(layer(i)), a);
    const BlockGradients before = i > 0 ? table_.gradients(at, i - 1) : BlockGradients{};
    const int64_t owner_of_before = i - 1 + kTurns;  // the layer whose gradients lay where those of the layer below come
    if (beside && owner_of_before < dims_.L) backend_.wait(kCompute, products_made(owner_of_before));
    d_sum = block_backward(training, layer(i), weights.acquire(layer(i)), grads.block(layer(i)), a, w, g, d_sum,
                           entered(training, at, i), before);
    g = before;
    if (beside) products_made(i) = backend_.record(kWeightProducts, "products_made");
    if (finishes && !beside) grads.finished(layer(i));
  }
  if (embeds_)
    embedding_backward(training, grads.embedding(), d_sum);
  else
    backend_.run(kCompute, Copy{.from = d_sum, .to = d_input});
  if (beside) {
    backend_.wait(kCompute, products_made(0));
    for (int64_t i = dims_.L - 1; i >= 0; --i) grads.finished(layer(i));
  }
  if (finishes && first_of_stage_) grads.finished_embedding();
}

void Gpt::backward_weight(const ChunkPass& pass, Grads& grads) const {
  const Context training = context(pass, Mode::training);
  if (has_head_) grads.finished_head();
  for (int64_t i = dims_.L - 1; i >= 0; --i) {
    const NamedRange range(backend_, "weight gradients of layer", layer(i));
    block_weight_grads(training, grads.block(layer(i)), table_.block(pass.at, i, Pass::backward), table_.gradients(pass.at, i));
    grads.finished(layer(i));
  }
  if (first_of_stage_) grads.finished_embedding();
}

}  // namespace trireme
