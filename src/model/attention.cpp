#include "model/attention.h"

#include "model/heads.h"
#include "model/ring_attention.h"

namespace trireme {
namespace {

bool rotates(const Context& context) { return context.model.position_embedding_type == PositionEmbedding::rope; }

RotaryScaling scaling_of(const ModelSettings& model) {
  const RopeScalingSettings& s = model.rope_scaling;
  switch (model.rope_type()) {
    case RopeType::plain:
      return {};
    case RopeType::linear:
      return {.linear = model.rope_factor()};
    case RopeType::llama3:
      break;
  }
  return {.factor = s.factor,
          .low_factor = s.low_freq_factor,
          .high_factor = s.high_freq_factor,
          .original = s.original_max_position_embeddings};
}

void rotate(const Context& context, RotaryDirection direction, const HeadsView& heads) {
  if (!rotates(context)) return;
  context.backend.run(kCompute, Rotary{.direction = direction,
                                       .dims = context.model.rotary_dims(),
                                       .base = static_cast<float>(context.model.rotary_base),
                                       .scaling = scaling_of(context.model),
                                       .positions = context.batch.positions,
                                       .heads = heads});
}

// Appends new keys and values to the cache and returns the views that attention reads instead.
PackedHeads through_cache(const Context& context, const PackedHeads& heads, KeyValueCache& cache) {
  const Dims& d = context.dims;
  const HeadsView keys{cache.packed, 0, d.G}, values{cache.packed, d.G, d.G};
  context.backend.run(kCompute, CopyHeads{.from = heads.k, .to = keys, .to_position = cache.length});
  context.backend.run(kCompute, CopyHeads{.from = heads.v, .to = values, .to_position = cache.length});
  cache.length += d.T;
  return {.q = heads.q, .k = keys, .v = values, .qk = {}};
}

}  // namespace

Tensor attention_forward(const BlockPass& pass, KeyValueCache* cache) {
  const Context& context = pass.context;
  const Dims& d = context.dims;
  BlockActivations& a = pass.a;
  const LinearSite out_site = pass.site(BlockLinear::out);
  a.qkv = context.take("qkv", {d.B, d.T, d.H + 2 * d.G, d.D});
  a.lse = context.take_f32("lse", {d.B, d.H, d.T});
  PackedHeads heads = unpack(d, a.qkv);
  context.linear.column_forward(pass.site(BlockLinear::qkv), {.x = a.normed1,
                                                              .weight = pass.weights.qkv_weight,
                                                              .bias = pass.weights.qkv_bias,
                                                              .out = a.qkv.reshaped({d.N(), d.qkv_width()})});
  rotate(context, RotaryDirection::forward, heads.qk);
  if (cache != nullptr) heads = through_cache(context, heads, *cache);
  a.attended = context.take("attended", {d.B, d.T, d.H, d.D});
  Operand attended = a.attended;
  if (context.cp.size() > 1) {
    ring_attention_forward(pass);
    attended = context.linear.quantized_input(out_site, a.attended);
  } else {
    attended = context.linear.input(out_site, a.attended, Wide::kept);
    context.backend.run(kCompute, AttentionForward{.q = heads.q,
                                                   .k = heads.k,
                                                   .v = heads.v,
                                                   .key_length = cache != nullptr ? cache->length : d.T,
                                                   .causal = CausalMask::yes,
                                                   .scale = score_scale(d),
                                                   .dropout = context.attention_dropout(pass.layer),
                                                   .document_starts = context.batch.document_starts,
                                                   .out = attended,
                                                   .lse = a.lse});
  }
  const Tensor branch = context.take("attention_branch", {d.R, d.C});
  context.linear.row_forward({.x = attended.reshaped({d.N(), d.H * d.D}),
                              .weight = pass.weights.out_weight,
                              .bias = pass.weights.out_bias,
                              .out = branch});
  return branch;
}

Tensor attention_backward(const BlockPass& pass, const BlockParameters& grads, BlockGradients& g) {
  const Context& context = pass.context;
  const Dims& d = context.dims;
  const BlockActivations& a = pass.a;
  const LinearSite qkv_site = pass.site(BlockLinear::qkv), out_site = pass.site(BlockLinear::out);
  const bool has_gradient_of_mlp = context.model.parallel_residual && !context.hidden_dropout_active();
  const Tensor d_attended = context.take("d_attended", {d.B, d.T, d.H, d.D});
  context.linear.row_backward(out_site,
                              {.x = context.linear.quantized_wgrad_input(out_site, a.attended).reshaped({d.N(), d.H * d.D}),
                               .d_out = g.d_attention,
                               .weight = pass.weights.out_weight,
                               .d_out_site = has_gradient_of_mlp ? pass.site(BlockLinear::down) : out_site,
                               .d_x = d_attended.reshaped({d.N(), d.H * d.D}),
                               .d_weight = grads.out_weight.tensor,
                               .d_bias = grads.out_bias});
  const PackedHeads heads = unpack(d, a.qkv);
  const Tensor d_packed = context.take("d_qkv", a.qkv.shape);
  // The op that writes the heads last makes their copies.
  if (context.cp.size() > 1) {
    ring_attention_backward(pass, d_attended, d_packed);
    g.d_qkv = rotates(context) ? context.linear.output_grad(qkv_site, d_packed)
                               : context.linear.quantized_output_grad(qkv_site, d_packed);
  } else {
    g.d_qkv = context.linear.output_grad(qkv_site, d_packed);
    const PackedHeads d_heads = unpack(d, rotates(context) ? Operand(d_packed) : g.d_qkv);
    context.backend.run(kCompute, AttentionBackward{.q = heads.q,
                                                    .k = heads.k,
                                                    .v = heads.v,
                                                    .key_length = d.T,
                                                    .causal = CausalMask::yes,
                                                    .scale = score_scale(d),
                                                    .dropout = context.attention_dropout(pass.layer),
                                                    .document_starts = context.batch.document_starts,
                                                    .out = a.attended,
                                                    .lse = a.lse,
                                                    .d_out = d_attended,
                                                    .d_q = d_heads.q,
                                                    .d_k = d_heads.k,
                                                    .d_v = d_heads.v});
  }
  rotate(context, RotaryDirection::backward, unpack(d, g.d_qkv).qk);
  const Tensor d_normed = context.take("d_normed1", {d.R, d.C});
  context.linear.column_backward(qkv_site, {.x = a.normed1,
                                            .d_out = g.d_qkv.reshaped({d.N(), d.qkv_width()}),
                                            .weight = pass.weights.qkv_weight,
                                            .d_x = d_normed,
                                            .d_weight = grads.qkv_weight.tensor,
                                            .d_bias = grads.qkv_bias});
  return d_normed;
}

void attention_weight_grads(const BlockPass& pass, const BlockParameters& grads, const BlockGradients& g) {
  const Dims& d = pass.context.dims;
  pass.context.linear.row_weight_grad(pass.site(BlockLinear::out), {.x = pass.a.attended.reshaped({d.N(), d.H * d.D}),
                                                                    .d_out = g.d_attention,
                                                                    .d_weight = grads.out_weight.tensor,
                                                                    .d_bias = grads.out_bias});
  pass.context.linear.column_weight_grad(pass.site(BlockLinear::qkv), {.x = pass.a.normed1,
                                                                       .d_out = g.d_qkv.reshaped({d.N(), d.qkv_width()}),
                                                                       .d_weight = grads.qkv_weight.tensor,
                                                                       .d_bias = grads.qkv_bias});
}

}  // namespace trireme
