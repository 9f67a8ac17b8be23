#include "model/attention.h"

#include "model/heads.h"
#include "model/ring_attention.h"

namespace trireme {
namespace {

bool rotates(const Context& context) { return context.model.position_embedding_type == PositionEmbedding::rope; }

RotaryScaling scaling_of(const ModelSettings& model) {
  if (!model.scales_rotary()) return {};
  const RopeScalingSettings& s = model.rope_scaling;
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

// Puts new keys and values behind those of the cache and returns the views that attention reads instead.
PackedHeads through_cache(const Context& context, const PackedHeads& heads, KeyValueCache& cache) {
  const Dims& d = context.dims;
  const HeadsView keys{cache.packed, 0, d.G}, values{cache.packed, d.G, d.G};
  context.backend.run(kCompute, CopyHeads{.from = heads.k, .to = keys, .to_position = cache.length});
  context.backend.run(kCompute, CopyHeads{.from = heads.v, .to = values, .to_position = cache.length});
  cache.length += d.T;
  return {.q = heads.q, .k = keys, .v = values, .qk = {}};
}

}  // namespace

void attention_forward(const Context& context, int64_t layer, const BlockParameters& weights, const BlockActivations& a,
                       const BlockWorkspace& w, Tensor branch, KeyValueCache* cache) {
  const Dims& d = context.dims;
  const Tensor qkv = a.qkv.reshaped({d.N(), d.qkv_width()});
  const Operand attended = a.attended.reshaped({d.N(), d.H * d.D});
  PackedHeads heads = unpack(d, a.qkv);
  context.linear.column_forward({.x = a.normed1, .weight = weights.qkv_weight, .bias = weights.qkv_bias, .out = qkv});
  rotate(context, RotaryDirection::forward, heads.qk);
  if (cache != nullptr) heads = through_cache(context, heads, *cache);
  if (context.cp.size() > 1) {
    ring_attention_forward(context, layer, a, w.ring);
    if (attended.fp8) context.backend.run(kCompute, Quantise{.x = attended});
  } else {
    context.backend.run(kCompute, AttentionForward{.q = heads.q,
                                                   .k = heads.k,
                                                   .v = heads.v,
                                                   .key_length = cache != nullptr ? cache->length : d.T,
                                                   .causal = CausalMask::yes,
                                                   .scale = score_scale(d),
                                                   .dropout = context.attention_dropout(layer),
                                                   .document_starts = context.batch.document_starts,
                                                   .out = a.attended,
                                                   .lse = a.lse});
  }
  context.linear.row_forward({.x = attended, .weight = weights.out_weight, .bias = weights.out_bias, .out = branch});
}

void attention_backward(const Context& context, int64_t layer, const BlockParameters& weights, const BlockParameters& grads,
                        const BlockActivations& a, const BlockWorkspace& w, const BlockGradients& g, Tensor d_normed) {
  const Dims& d = context.dims;
  // Whoever writes the heads last makes their copies.
  const PackedHeads heads = unpack(d, a.qkv), d_turned = unpack(d, g.d_qkv);
  const PackedHeads d_heads = rotates(context) ? unpack(d, Tensor(g.d_qkv)) : d_turned;
  const Tensor d_attended = attended_gradient(d, w, g);
  context.linear.row_backward({.x = a.attended.reshaped({d.N(), d.H * d.D}),
                               .d_out = g.d_attention,
                               .weight = weights.out_weight,
                               .d_x = d_attended.reshaped({d.N(), d.H * d.D}),
                               .d_weight = grads.out_weight,
                               .d_bias = grads.out_bias});
  const Operand d_qkv = g.d_qkv.reshaped({d.N(), d.qkv_width()});
  if (context.cp.size() > 1) {
    ring_attention_backward(context, layer, a, d_attended, g.d_qkv, w.ring);
    if (d_qkv.fp8 && !rotates(context)) context.backend.run(kCompute, Quantise{.x = d_qkv});
  } else {
    context.backend.run(kCompute, AttentionBackward{.q = heads.q,
                                                    .k = heads.k,
                                                    .v = heads.v,
                                                    .key_length = d.T,
                                                    .causal = CausalMask::yes,
                                                    .scale = score_scale(d),
                                                    .dropout = context.attention_dropout(layer),
                                                    .document_starts = context.batch.document_starts,
                                                    .out = a.attended,
                                                    .lse = a.lse,
                                                    .d_out = d_attended,
                                                    .d_q = d_heads.q,
                                                    .d_k = d_heads.k,
                                                    .d_v = d_heads.v});
  }
  rotate(context, RotaryDirection::backward, d_turned.qk);
  context.linear.column_backward({.x = a.normed1,
                                  .d_out = d_qkv,
                                  .weight = weights.qkv_weight,
                                  .d_x = d_normed,
                                  .d_weight = grads.qkv_weight,
                                  .d_bias = grads.qkv_bias});
}

void attention_weight_grads(const Context& context, const BlockParameters& grads, const BlockActivations& a,
                            const BlockGradients& g) {
  const Dims& d = context.dims;
  context.linear.row_weight_grad({.x = a.attended.reshaped({d.N(), d.H * d.D}),
                                  .d_out = g.d_attention,
                                  .d_weight = grads.out_weight,
                                  .d_bias = grads.out_bias});
  context.linear.column_weight_grad({.x = a.normed1,
                                     .d_out = g.d_qkv.reshaped({d.N(), d.qkv_width()}),
                                     .d_weight = grads.qkv_weight,
                                     .d_bias = grads.qkv_bias});
}

}  // namespace trireme
