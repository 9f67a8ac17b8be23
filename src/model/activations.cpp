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

// With FP8 the wide inputs are only worked in, but for what attention's backward reads, and the values read at once, in forward:
// all of it is memory that blocks share, part of it that of gradients, which come later.
LinearInputs make_fp8_inputs(const Dims& d, const BlockWorkspace& w, const Fp8State& fp8, Arena& arena) {
  const Tensor up = w.gradients.d_up.Tensor::reshaped({w.gradients.d_up.count()});
  const Tensor values = arena.take({d.N() * std::max({d.C, d.F, d.H * d.D})}, fp8.input_dtype());
  const auto input = [&](const Tensor& wide, int64_t width, Wide keep) {
    Operand made(wide, {}, keep);
    made.fp8.values = values.flat_range(0, {d.N(), width});
    return made;
  };
  return {.normed1 = input(w.d_normed1, d.C, Wide::scratch),
          .attended = input({}, d.H * d.D, Wide::kept),
          .normed2 = input(w.d_normed1, d.C, Wide::scratch),
          .activated = input(up.flat_range(0, {d.N(), d.F}), d.F, Wide::scratch)};
}

// Of those, the copies that are kept.
LinearInputs take_fp8_rebuilt(const Dims& d, const SharedWorkspace& shared, Arena& arena) {
  LinearInputs inputs = shared.fp8_inputs;
  for (Operand* input : {&inputs.normed1, &inputs.normed2, &inputs.activated})
    input->fp8.transposed = arena.take({input->fp8.values.shape[1], d.N()}, shared.fp8->input_dtype());
  return inputs;
}

Operand take_fp8_attended(const Dims& d, DType dtype, const SharedWorkspace& shared, Arena& arena) {
  Operand attended(take_attended(d, dtype, arena), shared.fp8_inputs.attended.fp8, Wide::kept);
  attended.fp8.transposed = arena.take({d.H * d.D, d.N()}, shared.fp8->input_dtype());
  return attended;
}

LinearInputs take_fp8_inputs(const Dims& d, DType dtype, const SharedWorkspace& shared, Arena& arena) {
  LinearInputs inputs = take_fp8_rebuilt(d, shared, arena);
  inputs.attended = take_fp8_attended(d, dtype, shared, arena);
  return inputs;
}

void add_gradient_copies(Operand& gradient, int64_t N, Wide keep, const Fp8State& fp8, Arena& arena) {
  const int64_t width = gradient.count() / N;
  gradient.wide = keep;
  gradient.fp8.values = arena.take({N, width}, fp8.output_grad_dtype());
  gradient.fp8.transposed = arena.take({width, N}, fp8.output_grad_dtype());
  gradient.fp8.column_sums = arena.take({ceil_div(N, Fp8Copy::kSumRows), width}, DType::f32);
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
                                    DeferredWeights deferred, Arena& arena, const Fp8State* fp8) {
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
  if (fp8 != nullptr) add_gradient_copies(w.gradients.d_attention, d.N(), dropout ? Wide::scratch : Wide::kept, *fp8, arena);
  // One branch after the other, unless the residual is parallel.
  w.gradients.d_mlp = w.gradients.d_attention;
  if (dropout && model.parallel_residual) {
    w.gradients.d_mlp = stream();
    if (fp8 != nullptr) add_gradient_copies(w.gradients.d_mlp, d.N(), Wide::scratch, *fp8, arena);
  }
  w.gradients.d_qkv = arena.take({d.B, d.T, d.H + 2 * d.G, d.D}, dtype);
  w.gradients.d_up = arena.take({d.N(), up_width(model, d)}, dtype);
  if (fp8 != nullptr)
    for (Operand* gradient : {&w.gradients.d_qkv, &w.gradients.d_up})
      add_gradient_copies(*gradient, d.N(), Wide::scratch, *fp8, arena);
  return w;
}

SharedWorkspace make_shared_workspace(const ModelSettings& model, const Dims& d, DType dtype, DeferredWeights deferred,
                                      const Fp8State* fp8, Arena& scratch) {
  CHECK(fp8 == nullptr || (deferred == DeferredWeights::no && d.R == d.N()));
  SharedWorkspace shared{.fp8 = fp8, .block = make_block_workspace(model, d, dtype, Backward::yes, deferred, scratch, fp8)};
  if (fp8 != nullptr) shared.fp8_inputs = make_fp8_inputs(d, shared.block, *fp8, scratch);
  if (model.activations_checkpoint_granularity == RecomputeGranularity::selective)
    shared.rebuilt = fp8 != nullptr ? take_fp8_rebuilt(d, shared, scratch) : take_rebuilt(d, dtype, scratch);
  for (int64_t i = 0; i < recompute_group(model, d.L); ++i) {
    shared.pool.push_back(take_saved(model, d, dtype, scratch));
    set_inputs(shared.pool.back(), fp8 != nullptr ? take_fp8_inputs(d, dtype, shared, scratch) : take_inputs(d, dtype, scratch));
  }
  return shared;
}

ActivationTable::ActivationTable(const ModelSettings& model, const Dims& dims, DType dtype, const Slots& slots,
                                 const SharedWorkspace& shared, Arena& activations)
    : layers_(dims.L),
      plan_(plan_recompute(model, dims.L)),
      rebuilds_(model.activations_checkpoint_granularity == RecomputeGranularity::selective),
      one_gradient_(model.parallel_residual && model.hidden_dropout == 0),
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
        inputs_.back().attended = shared.fp8 != nullptr ? take_fp8_attended(dims, dtype, shared, activations)
                                                        : Operand(take_attended(dims, dtype, activations));
      } else {
        inputs_.push_back(shared.fp8 != nullptr ? take_fp8_inputs(dims, dtype, shared, activations)
                                                : take_inputs(dims, dtype, activations));
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
  if (const Fp8State* fp8 = shared_.fp8) {
    fp8->assign_input(layer, BlockLinear::qkv, a.normed1.fp8);
    fp8->assign_input(layer, BlockLinear::out, a.attended.fp8);
    fp8->assign_input(layer, BlockLinear::up, a.normed2.fp8);
    fp8->assign_input(layer, BlockLinear::down, a.activated.fp8);
  }
  return a;
}

BlockGradients ActivationTable::gradients(const Slots& at, int64_t layer) const {
  BlockGradients g = later_.empty() ? shared_.block.gradients : later_[index(at.gradients, layer)].gradients;
  if (const Fp8State* fp8 = shared_.fp8) {
    fp8->assign_output_grad(layer, BlockLinear::qkv, g.d_qkv.fp8);
    fp8->assign_output_grad(layer, BlockLinear::out, g.d_attention.fp8);
    fp8->assign_output_grad(layer, BlockLinear::up, g.d_up.fp8);
    // Where both branches have the same gradient it has one copy.
    fp8->assign_output_grad(layer, one_gradient_ ? BlockLinear::out : BlockLinear::down, g.d_mlp.fp8);
  }
  return g;
}

}  // namespace trireme
