#include "model/gpt.h"

#include <array>

namespace trireme {

Gpt::Gpt(const ModelSettings& model, const RankShard& shard, int64_t chunk, const Dims& dims, DType dtype, Backend& backend,
         const Mesh& mesh, const Slots& slots, TensorSource& memory, const Fp8State* fp8)
    : model_(model),
      embeds_(shard.embeds(chunk)),
      has_head_(shard.has_head(chunk)),
      first_of_stage_(chunk == 0),
      dims_(dims),
      dtype_(dtype),
      backend_(backend),
      mesh_(mesh),
      memory_(memory),
      fp8_(fp8),
      plan_(plan_recompute(model, dims.L)),
      saved_(static_cast<size_t>(slots.saved)),
      deferred_(static_cast<size_t>(slots.gradients)) {
  for (Saved& saved : saved_) saved.blocks.resize(static_cast<size_t>(dims.L));
  for (std::vector<Deferred>& blocks : deferred_) blocks.resize(static_cast<size_t>(dims.L));
  if (has_head_) head_.emplace(dims, backend);
}

std::vector<Gpt::RecomputePlan> Gpt::plan_recompute(const ModelSettings& model, int64_t layers) {
  const bool full = model.activations_checkpoint_granularity == RecomputeGranularity::full;
  const bool uniform = model.activations_checkpoint_method == RecomputeMethod::uniform;
  const int64_t k = model.activations_checkpoint_num_layers;
  std::vector<RecomputePlan> plan;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const bool recomputed = full && (uniform || layer < k);
    plan.push_back({.group_begin = recomputed && uniform ? layer / k * k : layer, .recomputed = recomputed});
  }
  return plan;
}

bool Gpt::ends_group(int64_t i) const {
  const auto begin = [&](int64_t layer) { return plan_[static_cast<size_t>(layer)].group_begin; };
  return i == dims_.L - 1 || begin(i + 1) != begin(i);
}

int64_t Gpt::before(int64_t i) const {
  if (i == 0) return Weights::kNoLayer;
  const RecomputePlan& plan = plan_[static_cast<size_t>(i - 1)];
  return layer(plan.recomputed && ends_group(i - 1) ? plan.group_begin : i - 1);
}

Context Gpt::context(const ChunkPass& pass, Mode mode, GradSum weight_grads, Wgrad when) const {
  const bool in_pieces = model_.ub_tp_comm_overlap && !model_.fp8.enabled;  // FP8 copies are of all rows
  const bool one_at_a_time = model_.pipeline_model_parallel_size == 1 && model_.pipeline_schedule != PipelineSchedule::gpipe;
  const ParallelLinear::Options options{
      .operands = {.fp8 = fp8_, .cuts_rows = dims_.R < dims_.N(), .one_at_a_time = one_at_a_time},
      .wgrad = when,
      .overlap = in_pieces ? TensorOverlap::pieces : TensorOverlap::whole,
      .weight_grads = weight_grads};
  return {.backend = backend_,
          .memory = memory_,
          .tp = *mesh_.tp,
          .cp = *mesh_.cp,
          .linear = ParallelLinear(backend_, *mesh_.tp, memory_, options),
          .model = model_,
          .dims = dims_,
          .dtype = dtype_,
          .batch = pass.batch,
          .mode = mode};
}

PendingBranches Gpt::entered(const Context& context, int64_t i) const {
  return i == 0 ? PendingBranches{} : pending_after(context, layer(i - 1));
}

void Gpt::forward(const ChunkPass& pass, Mode mode, Tensor input, Tensor output, const Weights& weights, const Grads& grads,
                  Tensor scalars) {
  const Context forward = context(pass, mode, pass.head_grads);
  weights.prefetch(layer(0));
  Saved& saved = saved_[static_cast<size_t>(pass.at.saved)];
  PendingSum stream;
  if (embeds_) {
    stream.residual = embedding_forward(forward, weights.acquire_embedding());
  } else {  // the buffer that it arrived in is used again before backward
    stream.residual = forward.take("received", {dims_.R, dims_.C});
    backend_.run(kCompute, Copy{.from = input, .to = stream.residual});
  }
  for (int64_t i = 0; i < dims_.L; ++i) {
    const NamedRange range(backend_, "forward of layer", layer(i));
    BlockActivations& a = saved.blocks[static_cast<size_t>(i)] = {};
    const int64_t next = i + 1 < dims_.L ? layer(i + 1) : Weights::kNoLayer;
    stream = block_forward({forward, layer(i), weights.acquire(layer(i), next), a}, stream);
  }
  if (head_) {
    saved.head = head_->forward(forward, weights.acquire_head(), grads.head(), stream, scalars);
    return;
  }
  // Nothing is pending on a stream that goes to another chunk.
  backend_.run(kCompute, ResidualAdd{.residual = stream.residual,
                                     .branch = stream.branch,
                                     .branch2 = stream.branch2,
                                     .dropout = stream.dropout,
                                     .dropout2 = stream.dropout2,
                                     .sum = output});
}

Gpt::Group Gpt::recompute(const Context& context, const Saved& saved, int64_t last, const Weights& weights) const {
  const int64_t begin = plan_[static_cast<size_t>(last)].group_begin;
  PendingSum stream{.residual = saved.blocks[static_cast<size_t>(begin)].sum1};
  Group group(static_cast<size_t>(last - begin + 1));
  for (int64_t i = begin; i <= last; ++i) {
    const BlockParameters& parameters = weights.acquire(layer(i), i < last ? layer(i + 1) : Weights::kNoLayer);
    stream = block_forward({context, layer(i), parameters, group[static_cast<size_t>(i - begin)]}, stream,
                           i == last ? BlockOutput::no : BlockOutput::yes);
  }
  return group;
}

StreamGrad Gpt::received_gradient(const Context& context, Tensor d_output) const {
  const PendingBranches pending = entered(context, dims_.L);
  if (context.hidden_dropout_active()) {
    StreamGrad grad = take_stream_grad(context, pending);
    grad.d_sum = d_output;
    const auto drop = [&](const Dropout& dropout, const Operand& d_branch) {
      if (d_branch) backend_.run(kCompute, DropoutBackward{.d_sum = d_output, .dropout = dropout, .d_branch = d_branch});
    };
    drop(context.attention_branch_dropout(pending.layer), grad.d_attention);
    drop(context.mlp_branch_dropout(pending.layer), grad.d_mlp);
    return grad;
  }
  // The buffer that it arrived in is used again before a deferred wgrad.
  Tensor kept = d_output;
  if (context.linear.defers_weight_grads()) {
    kept = context.take("d_received", {dims_.R, dims_.C});
    backend_.run(kCompute, Copy{.from = d_output, .to = kept});
  }
  const Operand branch =
      dims_.R < dims_.N() ? Operand(kept) : context.linear.quantized_output_grad({pending.layer, BlockLinear::down}, kept);
  return {.d_sum = d_output, .d_attention = branch, .d_mlp = branch};
}

void Gpt::backward(const ChunkPass& pass, Wgrad when, Tensor d_output, Tensor d_input, const Weights& weights, Grads& grads) {
  const Context training = context(pass, Mode::training, pass.block_grads, when);
  weights.prefetch(before(dims_.L));
  const bool finishes = when != Wgrad::deferred;
  StreamGrad d_stream = head_ ? head_->final_norm_backward(training, saved_[static_cast<size_t>(pass.at.saved)].head,
                                                           weights.acquire_head(), grads.head(), entered(training, dims_.L))
                              : received_gradient(training, d_output);
  if (finishes && has_head_) grads.finished_head();
  d_stream = backward_blocks(training, pass, when, d_stream, weights, grads);
  if (embeds_)
    embedding_backward(training, grads.embedding(), d_stream.d_sum.tensor);
  else
    backend_.run(kCompute, Copy{.from = d_stream.d_sum.tensor, .to = d_input});
  if (when == Wgrad::concurrent) {
    backend_.wait(kCompute, backend_.record(kWgrad, "wgrads_done"));
    for (int64_t i = dims_.L - 1; i >= 0; --i) grads.finished(layer(i));
  }
  if (finishes && first_of_stage_) grads.finished_embedding();
}

StreamGrad Gpt::backward_blocks(const Context& training, const ChunkPass& pass, Wgrad when, StreamGrad d_stream,
                                const Weights& weights, Grads& grads) {
  Saved& saved = saved_[static_cast<size_t>(pass.at.saved)];
  Group group;
  // wgrad on a stream of its own may be this many layers late: what it reads keeps its memory until then.
  constexpr int64_t kLate = 2;
  std::array<Event, kLate> wgrads_made;
  for (int64_t i = dims_.L - 1; i >= 0; --i) {
    const NamedRange range(backend_, "backward of layer", layer(i));
    const RecomputePlan& plan = plan_[static_cast<size_t>(i)];
    if (plan.recomputed && ends_group(i)) group = recompute(training, saved, i, weights);
    BlockActivations& a =
        plan.recomputed ? group[static_cast<size_t>(i - plan.group_begin)] : saved.blocks[static_cast<size_t>(i)];
    Event& wgrad_made = wgrads_made[static_cast<size_t>(i % kLate)];
    if (when == Wgrad::concurrent && i + kLate < dims_.L) backend_.wait(kCompute, wgrad_made);
    BlockGradients g;
    const BlockParameters& parameters = weights.acquire(layer(i), before(i));
    d_stream = block_backward({training, layer(i), parameters, a}, grads.acquire(layer(i)), d_stream, entered(training, i), g);
    if (when == Wgrad::concurrent) wgrad_made = backend_.record(kWgrad, "wgrads_done");
    if (when == Wgrad::with_dgrad) grads.finished(layer(i));
    if (when == Wgrad::deferred) deferred_[static_cast<size_t>(pass.at.gradients)][static_cast<size_t>(i)] = {a, g};
  }
  return d_stream;
}

void Gpt::backward_weight(const ChunkPass& pass, const Weights& weights, Grads& grads) {
  const Context training = context(pass, Mode::training, pass.block_grads);
  if (has_head_) grads.finished_head();
  for (int64_t i = dims_.L - 1; i >= 0; --i) {
    const NamedRange range(backend_, "weight gradients of layer", layer(i));
    Deferred& deferred = deferred_[static_cast<size_t>(pass.at.gradients)][static_cast<size_t>(i)];
    block_weight_grads({training, layer(i), weights.views().block(layer(i)), deferred.a}, grads.acquire(layer(i)), deferred.g);
    grads.finished(layer(i));
  }
  if (first_of_stage_) grads.finished_embedding();
}

}  // namespace trireme
