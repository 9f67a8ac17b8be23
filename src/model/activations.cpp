#include "model/activations.h"

#include <algorithm>

namespace trireme {
namespace {

bool recomputes_all(const ModelSettings& model) { return model.activations_checkpoint_granularity == RecomputeGranularity::full; }
// FP8 products need another copy of their inputs in backward than in forward: it is made there.
bool rebuilds_inputs(const ModelSettings& model) {
  return model.fp8.enabled || model.activations_checkpoint_granularity == RecomputeGranularity::selective;
}
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

// Gradients that have no memory of their own, but lie where activations of the same block were. Backward makes the weight product
// of `activated` before it writes d_up; then nobody reads `up` any more; and behind the mlp nobody reads d_up. FP8 products keep
// no `activated`, and d_up lies where attention works; weight products that are not made at once need all of it later.
struct GradientPlaces {
  bool d_up_in_activated, d_qkv_in_up, d_attended_in_d_up;

  GradientPlaces(const ModelSettings& model, const Dims& d, WeightProducts when, const Fp8State* fp8)
      : d_up_in_activated(when == WeightProducts::now && fp8 == nullptr && !is_gated(model.activation)),
        d_qkv_in_up(when == WeightProducts::now && d.qkv_width() <= up_width(model, d)),
        d_attended_in_d_up(when == WeightProducts::now && fp8 == nullptr && d.H * d.D <= up_width(model, d)) {}
};

Tensor front_of(const Tensor& memory, const Shape& shape) { return memory.reshaped({memory.count()}).flat_range(0, shape); }

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

// The inputs that backward can make again. Those that it reads before it comes to attention are taken from `passing`; but in
// `activated` gradients come to lie.
LinearInputs take_rebuilt(const Dims& d, DType dtype, Arena& arena, Arena& passing) {
  return {.normed1 = arena.take({d.R, d.C}, dtype),
          .attended = {},
          .normed2 = passing.take({d.R, d.C}, dtype),
          .activated = arena.take({d.N(), d.F}, dtype)};
}

// The same with copies, and those of `attended`. Forward needs their values and backward the transposed ones, never at once.
LinearInputs take_rebuilt(const Dims& d, const Fp8Inputs& fp8, Arena& arena, Arena& passing) {
  const DType dtype = fp8.state->input_dtype();
  const auto with_copies = [&](const Operand& wide, int64_t width, const Tensor& transposed) {
    Operand input = wide;
    input.fp8.values = fp8.values.flat_range(0, {d.N(), width});
    input.fp8.transposed = transposed;
    return input;
  };
  // Rows that are gathered before copies are made of them are kept until then.
  const auto normed = [&](Arena& from) {
    return d.R < d.N() ? Operand(from.take({d.R, d.C}, fp8.normed.dtype)) : Operand(fp8.normed, {}, Wide::scratch);
  };
  const int64_t heads = d.H * d.D;
  return {.normed1 = with_copies(normed(arena), d.C, arena.take({d.C, d.N()}, dtype)),
          .attended = with_copies({}, heads, passing.take({heads, d.N()}, dtype)),
          .normed2 = with_copies(normed(passing), d.C, passing.take({d.C, d.N()}, dtype)),
          .activated = with_copies({fp8.activated, {}, Wide::scratch}, d.F, fp8.values.flat_range(0, {d.F, d.N()}))};
}

LinearInputs with_attended(LinearInputs rebuilt, const Dims& d, DType dtype, Arena& arena) {
  static_cast<Tensor&>(rebuilt.attended) = take_attended(d, dtype, arena);
  return rebuilt;
}

LinearInputs take_inputs(const Dims& d, DType dtype, Arena& arena) {
  return with_attended(take_rebuilt(d, dtype, arena, arena), d, dtype, arena);
}

// Of the copies, those that a pass needs. Backward makes its own of the same values, so their scale is there, unless
// micro-batches that came later have scaled theirs since.
void set_copies(BlockActivations& a, Pass pass, bool one_at_a_time) {
  static constexpr Fp8Scaling kAsInForward = Fp8Scaling::delayed;
  for (Operand* input : {&a.normed1, &a.attended, &a.normed2, &a.activated}) {
    (pass == Pass::backward ? input->fp8.values : input->fp8.transposed) = {};
    if (pass == Pass::backward && one_at_a_time) input->fp8.scaling = &kAsInForward;
  }
}

// An output gradient, [N,width], and its copies.
Operand with_copies(Operand gradient, int64_t N, int64_t width, const Fp8State* fp8, Arena& arena) {
  if (fp8 == nullptr) return gradient;
  gradient.fp8.values = arena.take({N, width}, fp8->output_grad_dtype());
  gradient.fp8.transposed = arena.take({width, N}, fp8->output_grad_dtype());
  gradient.fp8.column_sums = arena.take({ceil_div(N, Fp8Copy::kSumRows), width}, DType::f32);
  return gradient;
}

// The same memory with the scales of a layer of the model.
void set_scales(LinearInputs& inputs, const Fp8State& fp8, int64_t layer) {
  fp8.assign_input(layer, BlockLinear::qkv, inputs.normed1.fp8);
  fp8.assign_input(layer, BlockLinear::out, inputs.attended.fp8);
  fp8.assign_input(layer, BlockLinear::up, inputs.normed2.fp8);
  fp8.assign_input(layer, BlockLinear::down, inputs.activated.fp8);
}
void set_scales(BlockGradients& g, const Fp8State& fp8, int64_t layer) {
  fp8.assign_output_grad(layer, BlockLinear::qkv, g.d_qkv.fp8);
  fp8.assign_output_grad(layer, BlockLinear::out, g.d_attention.fp8);
  fp8.assign_output_grad(layer, BlockLinear::up, g.d_up.fp8);
  fp8.assign_output_grad(layer, BlockLinear::down, g.d_mlp.fp8);
}

enum class BranchGradients : uint8_t { one, two };  // of both branches, or one each

BlockGradients take_gradients(const ModelSettings& model, const Dims& d, DType dtype, BranchGradients branches, Arena& arena) {
  const Tensor d_mlp = arena.take({d.R, d.C}, dtype);
  return {.d_attention = branches == BranchGradients::one ? d_mlp : arena.take({d.R, d.C}, dtype),
          .d_mlp = d_mlp,
          .d_qkv = arena.take({d.B, d.T, d.H + 2 * d.G, d.D}, dtype),
          .d_up = arena.take({d.N(), up_width(model, d)}, dtype)};
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
                                    WeightProducts when, const Fp8State* fp8, const ModelMemory& memory) {
  Arena &work = memory.work, &passing = memory.passing;
  const auto stream = [&](Arena& arena) { return arena.take({d.R, d.C}, dtype); };
  const GradientPlaces reuses(model, d, when, fp8);
  BlockWorkspace w;
  w.branch1 = stream(work);  // the loss head reads them before there are logits
  w.branch2 = model.parallel_residual ? stream(work) : w.branch1;
  if (d.R < d.N())
    w.rows = {.gathered = memory.scratch.take({d.N(), d.C}, dtype), .sums = memory.scratch.take({d.N(), d.C}, dtype)};
  if (d.CP > 1) w.ring = make_ring(d, dtype, backward, work);
  if (backward == Backward::no) return w;
  w.d_sum = stream(work);
  w.d_normed1 = stream(passing);
  w.d_normed2 = model.parallel_residual ? stream(work) : w.d_normed1;  // that of the mlp, which waits for attention's
  if (!reuses.d_attended_in_d_up) w.d_attended = take_attended(d, dtype, work);
  if (is_gated(model.activation)) w.d_activated = passing.take({d.N(), d.F}, dtype);
  if (when == WeightProducts::later) return w;
  const bool dropout = model.hidden_dropout > 0;
  w.branch_grads = dropout ? BranchGrads::written : BranchGrads::same_as_sum;
  if (when == WeightProducts::beside) return w;
  const auto gradient = [&](const Tensor& made, int64_t width, Arena& copies) {
    return with_copies({made, {}, fp8 != nullptr ? Wide::scratch : Wide::kept}, d.N(), width, fp8, copies);
  };
  // The gradient of a block's output waits while the block is computed again, attention and all.
  Arena& branch = recomputes_all(model) ? work : passing;
  w.gradients.d_attention = dropout ? gradient(stream(branch), d.C, branch) : with_copies(w.d_sum, d.N(), d.C, fp8, branch);
  // One branch after the other, unless the residual is parallel.
  w.gradients.d_mlp = dropout && model.parallel_residual ? gradient(stream(branch), d.C, branch) : w.gradients.d_attention;
  w.gradients.d_qkv =
      gradient(reuses.d_qkv_in_up ? Tensor{} : work.take({d.B, d.T, d.H + 2 * d.G, d.D}, dtype), d.qkv_width(), passing);
  if (!reuses.d_up_in_activated) {
    Arena& place = reuses.d_attended_in_d_up ? work : passing;
    w.gradients.d_up = gradient(place.take({d.N(), up_width(model, d)}, dtype), up_width(model, d), passing);
  }
  return w;
}

Tensor attended_gradient(const Dims& d, const BlockWorkspace& w, const BlockGradients& gradients) {
  return w.d_attended ? w.d_attended : front_of(gradients.d_up, {d.B, d.T, d.H, d.D});
}

SharedWorkspace make_shared_workspace(const ModelSettings& model, const Dims& d, DType dtype, WeightProducts when,
                                      const Fp8State* fp8, const ModelMemory& memory) {
  Arena &work = memory.work, &passing = memory.passing;
  SharedWorkspace shared{.block = make_block_workspace(model, d, dtype, Backward::yes, when, fp8, memory)};
  if (when == WeightProducts::beside) {
    CHECK(fp8 == nullptr && !recomputes_all(model) && !rebuilds_inputs(model));  // those work in memory that all layers share
    const bool one = model.parallel_residual && model.hidden_dropout == 0;
    for (int64_t i = 0; i < SharedWorkspace::kTurns; ++i)
      shared.in_turn.push_back(take_gradients(model, d, dtype, one ? BranchGradients::one : BranchGradients::two, work));
  }
  if (fp8 != nullptr) {
    CHECK(when == WeightProducts::now);
    // Forward works where gradients come later.
    const Tensor& d_up = shared.block.gradients.d_up;
    shared.fp8 = {.state = fp8,
                  .one_gradient = model.parallel_residual && model.hidden_dropout == 0,
                  .normed = shared.block.d_normed1,
                  .activated = front_of(d_up, {d.N(), d.F}),
                  .values = passing.take({d.N() * std::max({d.C, d.F, d.H * d.D})}, fp8->input_dtype())};
  }
  if (fp8 != nullptr)
    shared.rebuilt = take_rebuilt(d, shared.fp8, work, passing);
  else if (rebuilds_inputs(model))
    shared.rebuilt = take_rebuilt(d, dtype, work, passing);
  for (int64_t i = 0; i < recompute_group(model, d.L); ++i) {
    shared.pool.push_back(take_saved(model, d, dtype, work));
    set_inputs(shared.pool.back(), fp8 != nullptr ? with_attended(shared.rebuilt, d, dtype, work) : take_inputs(d, dtype, work));
  }
  return shared;
}

ActivationTable::ActivationTable(const ModelSettings& model, const Dims& dims, DType dtype, const Slots& slots,
                                 const SharedWorkspace& shared, Arena& activations)
    : layers_(dims.L),
      first_layer_(dims.L_first),
      plan_(plan_recompute(model, dims.L)),
      rebuilds_(rebuilds_inputs(model)),
      one_at_a_time_(model.pipeline_model_parallel_size == 1 && model.pipeline_schedule != PipelineSchedule::gpipe),
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
        inputs_.push_back(with_attended(shared.rebuilt, dims, dtype, activations));
      } else {
        inputs_.push_back(take_inputs(dims, dtype, activations));
      }
      if (shared.fp8.state != nullptr) set_scales(inputs_.back(), *shared.fp8.state, first_layer_ + layer);
    }
  for (int64_t slot = 0; slot < slots.gradients; ++slot)
    for (int64_t layer = 0; layer < layers_; ++layer) later_.push_back(make_later(model, dims, dtype, layer, activations));
}

ActivationTable::Later ActivationTable::make_later(const ModelSettings& model, const Dims& d, DType dtype, int64_t layer,
                                                   Arena& arena) const {
  Later later{.gradients = take_gradients(model, d, dtype, BranchGradients::two, arena), .inputs = {}};
  if (plan(layer).recomputed)
    later.inputs = take_inputs(d, dtype, arena);
  else if (rebuilds_)
    later.inputs = take_rebuilt(d, dtype, arena, arena);
  return later;
}

BlockActivations ActivationTable::block(const Slots& at, int64_t layer, Pass pass) const {
  BlockActivations a = saved_[index(at.saved, layer)];
  set_inputs(a, inputs_[index(at.inputs, layer)]);
  if (pass != Pass::forward && !later_.empty()) set_inputs(a, later_[index(at.gradients, layer)].inputs);
  if (shared_.fp8.state != nullptr) set_copies(a, pass, one_at_a_time_);
  return a;
}

BlockGradients ActivationTable::gradients(const Slots& at, int64_t layer) const {
  if (!later_.empty()) return later_[index(at.gradients, layer)].gradients;
  if (!shared_.in_turn.empty()) return shared_.in_turn[static_cast<size_t>(layer % SharedWorkspace::kTurns)];
  BlockGradients gradients = shared_.block.gradients;
  const BlockActivations a = block(at, layer, Pass::backward);
  if (!gradients.d_up) gradients.d_up = a.activated;
  if (!gradients.d_qkv) static_cast<Tensor&>(gradients.d_qkv) = front_of(a.up, a.qkv.shape);
  if (shared_.fp8.state != nullptr) set_scales(gradients, *shared_.fp8.state, first_layer_ + layer);
  if (shared_.fp8.one_gradient) gradients.d_attention = gradients.d_mlp;
  return gradients;
}

}  // namespace trireme
