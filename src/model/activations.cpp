#include "model/activations.h"

#include <algorithm>

namespace trireme {
namespace {

bool recomputes_all(const ModelSettings& model) { return model.activations_checkpoint_granularity == RecomputeGranularity::full; }
bool is_uniform(const ModelSettings& model) { return model.activations_checkpoint_method == RecomputeMethod::uniform; }

// Which layers are recomputed, and in which groups.
std::vector<ActivationTable::Layer> plan_recompute(const ModelSettings& model, int64_t L) {
  const int64_t k = model.activations_checkpoint_num_layers;
  std::vector<ActivationTable::Layer> plan;
  for (int64_t layer = 0; layer < L; ++layer) {
    const bool recomputed = recomputes_all(model) && (is_uniform(model) || layer < k);
    const int64_t group_begin = recomputed && is_uniform(model) ? layer / k * k : layer;
    plan.push_back({.group_begin = group_begin, .recomputed = recomputed});
  }
  return plan;
}

// Layers of the longest group.
int64_t recompute_group(const ModelSettings& model, int64_t L) {
  const int64_t k = model.activations_checkpoint_num_layers;
  if (!recomputes_all(model) || k == 0) return 0;
  return is_uniform(model) ? std::min(k, L) : 1;
}

int64_t up_width(const ModelSettings& model, const Dims& d) { return is_gated(model.activation) ? 2 * d.F : d.F; }

// Everything but the inputs of linear layers.
BlockActivations take_saved(const ModelSettings& model, const Dims& d, DType dtype, Arena& arena) {
  const bool has_mean = model.normalization != Normalization::rmsnorm;
  const auto statistic = [&] { return arena.take({d.R}, DType::f32); };
  BlockActivations a;
  a.sum1 = arena.take({d.R, d.C}, dtype);
  if (has_mean) a.mean1 = statistic();
  a.rstd1 = statistic();
  a.qkv = arena.take({d.B, d.T, d.H + 2 * d.G, d.D}, dtype);
  a.lse = arena.take({d.B, d.H, d.T}, DType::f32);
  if (!model.parallel_residual) a.sum2 = arena.take({d.R, d.C}, dtype);
  if (has_mean) a.mean2 = statistic();
  a.rstd2 = statistic();
  a.up = arena.take({d.N(), up_width(model, d)}, dtype);
  return a;
}

Tensor take_attended(const Dims& d, DType dtype, Arena& arena) { return arena.take({d.B, d.T, d.H, d.D}, dtype); }

// The inputs that selective recompute rebuilds.
LinearInputs take_rebuilt(const Dims& d, DType dtype, Arena& arena) {
  return {.normed1 = arena.take({d.R, d.C}, dtype),
          .attended = {},
          .normed2 = arena.take({d.R, d.C}, dtype),
          .activated = arena.take({d.N(), d.F}, dtype)};
}

LinearInputs take_inputs(const Dims& d, DType dtype, Arena& arena) {
  LinearInputs inputs = take_rebuilt(d, dtype, arena);
  inputs.attended = take_attended(d, dtype, arena);
  return inputs;
}

LinearInputs inputs_of(const BlockActivations& a) {
  return {.normed1 = a.normed1, .attended = a.attended, .normed2 = a.normed2, .activated = a.activated};
}

// Puts those that are there in their places.
void set_inputs(BlockActivations& a, const LinearInputs& inputs) {
  if (inputs.normed1) a.normed1 = inputs.normed1;
  if (inputs.attended) a.attended = inputs.attended;
  if (inputs.normed2) a.normed2 = inputs.normed2;
  if (inputs.activated) a.activated = inputs.activated;
}

RingBuffers make_ring(const Dims& d, DType dtype, Backward backward, Arena& arena) {
  RingBuffers ring;
  for (Tensor& buffer : ring.key_values) buffer = arena.take({d.N(), 2 * d.G, d.D}, dtype);
  const int64_t half = div_exact(d.T, 2);
  ring.part_out = arena.take({d.B, half, d.H, d.D}, dtype);
  ring.part_lse = arena.take({d.B, d.H, half}, DType::f32);
  if (backward == Backward::no) return ring;
  for (Tensor& buffer : ring.d_key_values) buffer = arena.take({d.N(), 2 * d.G, d.D}, dtype);
  ring.d_queries = arena.take({d.N(), d.H, d.D}, dtype);
  ring.part_d_keys = arena.take({d.B, half, 2 * d.G, d.D}, dtype);
  return ring;
}

}  // namespace

BlockActivations make_block_activations(const ModelSettings& model, const Dims& d, DType dtype, Arena& arena) {
  BlockActivations a = take_saved(model, d, dtype, arena);
  set_inputs(a, take_inputs(d, dtype, arena));
  return a;
}

BlockWorkspace make_block_workspace(const ModelSettings& model, const Dims& d, DType dtype, Backward backward,
                                    DeferredWeights deferred, Arena& arena) {
  const auto stream = [&] { return arena.take({d.R, d.C}, dtype); };
  BlockWorkspace w;
  w.branch1 = stream();
  w.branch2 = stream();
  if (d.R < d.N()) w.rows = {.gathered = arena.take({d.N(), d.C}, dtype), .sums = arena.take({d.N(), d.C}, dtype)};
  if (d.CP > 1) w.ring = make_ring(d, dtype, backward, arena);
  if (backward == Backward::no) return w;
  w.d_sum = stream();
  w.d_normed1 = stream();
  w.d_normed2 = model.parallel_residual ? stream() : w.d_normed1;
  w.d_attended = take_attended(d, dtype, arena);
  if (is_gated(model.activation)) w.d_activated = arena.take({d.N(), d.F}, dtype);
  if (deferred == DeferredWeights::yes) return w;
  const bool dropout = model.hidden_dropout > 0;
  w.branch_grads = dropout ? BranchGrads::written : BranchGrads::same_as_sum;
  w.gradients.d_attention = dropout ? stream() : w.d_sum;
  // One branch after the other, unless the residual is parallel.
  w.gradients.d_mlp = dropout && model.parallel_residual ? stream() : w.gradients.d_attention;
  w.gradients.d_qkv = arena.take({d.B, d.T, d.H + 2 * d.G, d.D}, dtype);
  w.gradients.d_up = arena.take({d.N(), up_width(model, d)}, dtype);
  return w;
}

SharedWorkspace make_shared_workspace(const ModelSettings& model, const Dims& d, DType dtype, DeferredWeights deferred,
                                      Arena& scratch) {
  SharedWorkspace shared{
      .block = make_block_workspace(model, d, dtype, Backward::yes, deferred, scratch), .rebuilt = {}, .pool = {}};
  if (model.activations_checkpoint_granularity == RecomputeGranularity::selective)
    shared.rebuilt = take_rebuilt(d, dtype, scratch);
  for (int64_t i = 0; i < recompute_group(model, d.L); ++i)
    shared.pool.push_back(make_block_activations(model, d, dtype, scratch));
  return shared;
}

ActivationTable::ActivationTable(const ModelSettings& model, const Dims& dims, DType dtype, const Slots& slots,
                                 const SharedWorkspace& shared, Arena& activations)
    : layers_(dims.L),
      plan_(plan_recompute(model, dims.L)),
      rebuilds_(model.activations_checkpoint_granularity == RecomputeGranularity::selective),
      shared_(shared) {
  const auto pooled = [&](int64_t layer) -> const BlockActivations& {
    return shared.pool[static_cast<size_t>(layer - plan(layer).group_begin)];
  };
  for (int64_t slot = 0; slot < slots.saved; ++slot)
    for (int64_t layer = 0; layer < layers_; ++layer) {
      if (!plan(layer).recomputed) {
        saved_.push_back(take_saved(model, dims, dtype, activations));
        continue;
      }
      saved_.push_back(pooled(layer));
      if (layer == plan(layer).group_begin)  // the group's input is all it keeps
        saved_.back().sum1 = activations.take({dims.R, dims.C}, dtype);
    }
  for (int64_t slot = 0; slot < slots.inputs; ++slot)
    for (int64_t layer = 0; layer < layers_; ++layer) {
      if (plan(layer).recomputed) {
        inputs_.push_back(inputs_of(pooled(layer)));
      } else if (rebuilds_) {
        inputs_.push_back(shared.rebuilt);
        inputs_.back().attended = take_attended(dims, dtype, activations);
      } else {
        inputs_.push_back(take_inputs(dims, dtype, activations));
      }
    }
  for (int64_t slot = 0; slot < slots.gradients; ++slot)
    for (int64_t layer = 0; layer < layers_; ++layer) later_.push_back(make_later(model, dims, dtype, layer, activations));
}

ActivationTable::Later ActivationTable::make_later(const ModelSettings& model, const Dims& d, DType dtype, int64_t layer,
                                                   Arena& arena) const {
  Later later;
  later.gradients = {.d_attention = arena.take({d.R, d.C}, dtype),
                     .d_mlp = arena.take({d.R, d.C}, dtype),
                     .d_qkv = arena.take({d.B, d.T, d.H + 2 * d.G, d.D}, dtype),
                     .d_up = arena.take({d.N(), up_width(model, d)}, dtype)};
  if (plan(layer).recomputed)
    later.inputs = take_inputs(d, dtype, arena);
  else if (rebuilds_)
    later.inputs = take_rebuilt(d, dtype, arena);
  return later;
}

BlockActivations ActivationTable::block(const Slots& at, int64_t layer, Pass pass) const {
  BlockActivations a = saved_[index(at.saved, layer)];
  set_inputs(a, inputs_[index(at.inputs, layer)]);
  if (pass == Pass::backward && !later_.empty()) set_inputs(a, later_[index(at.gradients, layer)].inputs);
  return a;
}

BlockGradients ActivationTable::gradients(const Slots& at, int64_t layer) const {
  return later_.empty() ? shared_.block.gradients : later_[index(at.gradients, layer)].gradients;
}

}  // namespace trireme
