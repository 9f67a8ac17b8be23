// Parity cases of attention and what prepares its heads.
#pragma once

#include "support/parity_cases.h"

namespace trireme {

struct AttentionShape {
  int64_t B, Tq, Tk;   // Tk: keys there is room for
  int64_t key_length;  // keys that count
  int64_t H, G, D;
  CausalMask causal;
  int64_t first_key = 0;
};
// One token; odd sizes; keys from the middle of a sequence; several blocks of queries and keys, not whole and whole; grouped
// queries; a cache that is longer than the queries.
inline constexpr AttentionShape kAttentions[] = {
    {1, 1, 1, 1, 1, 1, 5, CausalMask::yes},        {2, 3, 3, 3, 2, 2, 16, CausalMask::yes},
    {1, 17, 17, 17, 4, 2, 33, CausalMask::yes},    {1, 130, 130, 130, 2, 2, 64, CausalMask::yes},
    {2, 33, 33, 33, 3, 1, 32, CausalMask::no},     {1, 130, 130, 130, 4, 1, 8, CausalMask::no},
    {2, 1, 40, 29, 4, 2, 16, CausalMask::yes},     {1, 7, 150, 141, 2, 1, 64, CausalMask::yes},
    {1, 5, 20, 9, 2, 2, 24, CausalMask::no},       {1, 70, 70, 70, 1, 1, 128, CausalMask::yes},
    {2, 20, 20, 20, 2, 1, 16, CausalMask::no, 68}, {2, 64, 64, 64, 4, 2, 32, CausalMask::yes},
    {1, 192, 192, 192, 2, 1, 64, CausalMask::yes}};

inline std::string describe(const AttentionShape& s, float probability) {
  return fmt::format("B={} Tq={} Tk={} keys={} H={} G={} D={} causal {} dropout {}", s.B, s.Tq, s.Tk, s.key_length, s.H, s.G, s.D,
                     static_cast<int>(s.causal), probability);
}

// q, k and v of one packed tensor [B,T,H+2G,D]; where there are more keys than queries, queries of their own tensor and keys and
// values of another, as with a cache.
struct Heads {
  HeadsView q, k, v;
};
inline Heads make_heads(HostTensors& tensors, const AttentionShape& s, DType act) {
  if (s.Tq == s.Tk) {
    const Tensor packed = tensors.uniform({s.B, s.Tq, s.H + 2 * s.G, s.D}, act);
    return {{packed, 0, s.H}, {packed, s.H, s.G}, {packed, s.H + s.G, s.G}};
  }
  const Tensor queries = tensors.uniform({s.B, s.Tq, s.H + 1, s.D}, act);
  const Tensor cache = tensors.uniform({s.B, s.Tk, 2 * s.G, s.D}, act);
  return {{queries, 1, s.H}, {cache, 0, s.G}, {cache, s.G, s.G}};
}

inline AttentionForward make_attention(HostTensors& tensors, const AttentionShape& s, DType act, float probability) {
  const Heads heads = make_heads(tensors, s, act);
  return {.q = heads.q,
          .k = heads.k,
          .v = heads.v,
          .key_length = s.key_length,
          .first_key = s.first_key,
          .causal = s.causal,
          .scale = 1 / std::sqrt(static_cast<float>(s.D)),
          .dropout = dropout(tensors, s.B * s.Tq, probability),
          .out = tensors.uniform({s.B, s.Tq, s.H, s.D}, act),
          .lse = tensors.uniform({s.B, s.H, s.Tq}, DType::f32)};
}

inline void check(Parity& parity, Case<AttentionForward>) {
  for (const DType act : kActDTypes)
    for (const AttentionShape& shape : kAttentions)
      for (const float probability : kProbabilities) {
        HostTensors tensors;
        const AttentionForward op = make_attention(tensors, shape, act, probability);
        // A score is a sum of D terms below 1 / sqrt(D); lse and out follow it with slope 1, and add key_length terms below 1
        // each. Probabilities may be rounded to the activation dtype before they meet the values; they sum to 1, the values are
        // below 1.
        const double terms = static_cast<double>(shape.D + shape.key_length), scale = dropout_scale(probability);
        const Tolerances tolerances{{"lse", {.terms = terms, .size = 1}},
                                    {"out", {.terms = terms, .size = scale, .carried = scale / 2}}};
        parity.expect(op, act, tolerances, describe(shape, probability));
        tensors.expect_untouched_outside();
      }
}

// The backward of a forward that has run.
inline AttentionBackward make_attention_backward(HostTensors& tensors, const AttentionShape& shape,
                                                 const AttentionForward& forward) {
  const DType act = forward.out.dtype();
  const Heads gradients = make_heads(tensors, shape, act);
  return {.q = forward.q,
          .k = forward.k,
          .v = forward.v,
          .key_length = forward.key_length,
          .first_key = forward.first_key,
          .causal = forward.causal,
          .scale = forward.scale,
          .dropout = forward.dropout,
          .document_starts = forward.document_starts,
          .out = forward.out.tensor,
          .lse = forward.lse,
          .d_out = tensors.uniform({shape.B, shape.Tq, shape.H, shape.D}, act),
          .d_q = gradients.q,
          .d_k = gradients.k,
          .d_v = gradients.v};
}

// Of gradients up to `size`.
inline Tolerances gradient_tolerances(const AttentionShape& shape, double size) {
  const Tolerance sum{.terms = static_cast<double>(shape.D + shape.key_length + shape.Tq), .size = size, .carried = size / 2};
  return {{"d_q", sum}, {"d_k", sum}, {"d_v", sum}};
}

inline void check(Parity& parity, Case<AttentionBackward>) {
  for (const DType act : kActDTypes)
    for (const AttentionShape& shape : kAttentions)
      for (const float probability : kProbabilities) {
        HostTensors tensors;
        const AttentionForward forward = make_attention(tensors, shape, act, probability);
        parity.reference().run(kCompute, forward);
        const AttentionBackward op = make_attention_backward(tensors, shape, forward);
        // d_q of a query sums probability * (d_probability - delta) * scale over keys. d_probability and delta are D terms of
        // either sign, about sqrt(D), which scale takes away again, so d_q is a few times the dropout scale. d_k and d_v of a key
        // sum over queries and the heads of its group; the probabilities of one key over all queries sum to about log(Tq) + 1
        // with the causal mask. Probabilities and score gradients may be rounded to the activation dtype before their product.
        const double seen = std::log(static_cast<double>(shape.Tq)) + 1,
                     heads = static_cast<double>(shape.H) / static_cast<double>(shape.G);
        const double size = 2 * dropout_scale(probability) * seen * heads;
        parity.expect(op, act, gradient_tolerances(shape, size), describe(shape, probability));
        tensors.expect_untouched_outside();
      }
}

// Where the document of each query starts: not falling within a sequence, and with the causal mask never after the query. Without
// it the keys are a part of the sequence, and later queries may see none of them.
inline Tensor make_document_starts(HostTensors& tensors, const AttentionShape& s) {
  const Tensor starts = tensors.integers({s.B * s.Tq}, 0, 4);
  int32_t* values = starts.as<int32_t>();
  for (int64_t i = 0; i < s.B * s.Tq; ++i) {
    const int64_t place = s.causal == CausalMask::yes ? i % s.Tq + s.key_length - s.Tq : 2 * (i % s.Tq);
    const bool begins = values[i] == 0 && place >= 0;
    const int32_t before = i % s.Tq == 0 ? 0 : values[i - 1];
    values[i] = begins ? static_cast<int32_t>(s.first_key + std::min(place, s.key_length)) : before;
  }
  return starts;
}

// Documents side by side in a sequence, forward and backward.
inline void check_documents(Parity& parity) {
  for (const DType act : kActDTypes)
    for (const AttentionShape& shape : kAttentions)
      for (const float probability : kProbabilities) {
        HostTensors tensors;
        AttentionForward forward = make_attention(tensors, shape, act, probability);
        forward.document_starts = make_document_starts(tensors, shape);
        const double terms = static_cast<double>(shape.D + shape.key_length), scale = dropout_scale(probability);
        parity.expect(forward, act,
                      {{"lse", {.terms = terms, .size = 1}}, {"out", {.terms = terms, .size = scale, .carried = scale / 2}}},
                      describe(shape, probability));
        parity.reference().run(kCompute, forward);
        const AttentionBackward op = make_attention_backward(tensors, shape, forward);
        // As in AttentionBackward, but a key may be the only one of every query that sees it, so that probabilities do not fall.
        const double heads = static_cast<double>(shape.H) / static_cast<double>(shape.G);
        const double size = 2 * dropout_scale(probability) * heads * static_cast<double>(std::min<int64_t>(shape.Tq, 12));
        parity.expect(op, act, gradient_tolerances(shape, size), describe(shape, probability));
        tensors.expect_untouched_outside();
      }
}

inline void check(Parity& parity, Case<MergeAttention>) {
  for (const DType act : kActDTypes)
    for (const Shape& shape : {Shape{1, 1, 1, 5}, Shape{2, 17, 3, 16}, Shape{1, 130, 4, 64}}) {
      HostTensors tensors;
      const Shape statistics{shape[0], shape[2], shape[1]};
      const MergeAttention op{.part_out = tensors.uniform(shape, act),
                              .part_lse = tensors.uniform(statistics, DType::f32),
                              .out = tensors.uniform(shape, act),
                              .lse = tensors.uniform(statistics, DType::f32)};
      // Two exponentials and a logarithm of values about 1; the weights sum to 1.
      parity.expect(op, act, {{"lse", {.terms = 8, .size = 2}}, {"out", {.terms = 8, .size = 1}}}, fmt::format("{}", shape));
      tensors.expect_untouched_outside();
    }
}

inline void check(Parity& parity, Case<Rotary>) {
  for (const DType act : kActDTypes)
    for (const RotaryDirection direction : {RotaryDirection::forward, RotaryDirection::backward})
      for (const int64_t D : {6, 16, 64})
        for (const int64_t dims : {int64_t{2}, D / 2 / 2 * 2, D})
          for (const int64_t farthest : {17, 1000000}) {
            HostTensors tensors;
            const Rotary op{.direction = direction,
                            .dims = dims,
                            .base = 10000,
                            .scaling = {.factor = farthest == 17 ? 1.0 : 8.0, .original = 512},
                            .positions = tensors.integers({3 * 7}, 0, farthest),
                            .heads = {tensors.uniform({3, 7, 5, D}, act), 1, 3}};
            // Two products of values below 1; the cosine and sine of far positions may be 1e-6 off, 16 units.
            parity.expect(op, act, {{"heads", {.terms = farthest == 17 ? 2.0 : 4.0, .size = 2}}},
                          fmt::format("D={} dims={} positions below {}", D, dims, farthest));
            tensors.expect_untouched_outside();
          }
}

inline void check(Parity& parity, Case<CopyHeads>) {
  for (const DType act : kActDTypes)
    for (const int64_t to_position : {0, 5}) {
      HostTensors tensors;
      const CopyHeads op{.from = {tensors.uniform({2, 3, 7, 5}, act), 2, 4},
                         .to = {tensors.uniform({2, 9, 6, 5}, act), 1, 4},
                         .to_position = to_position};
      parity.expect(op, act, {}, fmt::format("to position {}", to_position));
      tensors.expect_untouched_outside();
    }
}

}  // namespace trireme
