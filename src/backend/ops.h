// The ops: everything the model asks of a backend. One struct per op holds its operands; its comment is its definition.
//
// Alphabet: N rows = B*T, B batch, T time, C width, F feed-forward width, H query heads, G key/value heads, D head width, V
// vocabulary, I and O the input and output width of a linear layer.
// "act" is the activation dtype, f32, bf16 or f16, the same for every act tensor of one op; weights have it too. Gradients of
// parameters are f32 and are added to, except with GradSum::replaces. Statistics and losses are f32. Sums are computed in f32 or
// better. An operand marked "optional" may be absent (Tensor{}).
// An Operand may have FP8 copies (tensor/operand.h). An op that writes the operand fills its FP8 copies too. A GEMM reads the FP8
// copies instead of the tensors, for both of its operands or for neither. A tensor marked Wide::scratch has undefined contents
// afterwards.
//
// visit(v) names each operand once, as v.in, v.out, v.update (read and written) or v.scratch (contents undefined before and
// after). v.in_place(out, in) permits `out` to share the memory of an `in` that no later op reads; the op reads each element of
// `in` before it writes that element of `out`. Recording, memory placement, tracing, the parity tests and the byte counts all
// follow from visit.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/operand.h"

namespace trireme {

// ---------------------------------------------------------------------------------------------- pieces that ops share

// y = keep(n, c) ? x / (1 - probability) : 0, where keep is drawn from Philox keyed by (seed, site, row_keys[n], c): see
// dropout_block in base/philox.h. probability 0 means y = x.
struct Dropout {
  float probability = 0;
  uint64_t seed = 0;
  uint32_t site = 0;  // which dropout of the model this is
  Tensor row_keys;    // [N] i64: global sample * sequence length + position
  bool active() const { return probability > 0; }
};

enum class NormKind : uint8_t { layernorm, layernorm1p, rmsnorm };
enum class Activation : uint8_t { none, gelu_tanh, gelu_erf };
enum class CausalMask : uint8_t { no, yes };
enum class RotaryDirection : uint8_t { forward, backward };
enum class WriteGrad : uint8_t { no, yes };
enum class GradSum : uint8_t { adds, replaces };  // adds to the gradient, or overwrites it

// Which of the amaxes of recent steps a scale is computed from.
enum class AmaxChoice : uint8_t { largest, most_recent };

// Helpers for an op's visit(): an operand that a GEMM reads along its rows or its columns, or that an op writes.
template <class V>
void visit_rows(V&& v, const char* name, const Operand& operand) {
  v.in(name, operand.fp8 ? operand.fp8.values : operand.tensor);
}
template <class V>
void visit_columns(V&& v, const char* name, const Operand& operand) {
  v.in(name, operand.fp8 ? operand.fp8.transposed : operand.tensor);
}
template <class V>
void visit_copies(V&& v, const Operand& operand) {
  v.out("fp8_values", operand.fp8.values), v.out("fp8_transposed", operand.fp8.transposed);
  v.out("fp8_column_sums", operand.fp8.column_sums), v.update("fp8_amax", operand.fp8.amax);
  v.update("fp8_scale", operand.fp8.scale), v.update("fp8_inverse", operand.fp8.inverse);
}
template <class V>
void visit_written(V&& v, const char* name, const Operand& operand) {
  operand.wide == Wide::kept ? v.out(name, operand.tensor) : v.scratch(name, operand.tensor);
  visit_copies(v, operand);
}

// Heads first .. first + count - 1 of packed heads [B,T,*,D].
struct HeadsView {
  Operand packed;
  int64_t first = 0;
  int64_t count = 0;
};

// Whether two operands are the same tensor, which is visited once. On the cost backend tensors have no address, so identity is
// inferred: views of one packed tensor have adjacent head ranges.
inline bool same_tensor(const Tensor& a, const Tensor& b) { return a.data == b.data && a.dtype == b.dtype && a.shape == b.shape; }
inline bool same_tensor(const HeadsView& a, const HeadsView& b) {
  return same_tensor(a.packed.tensor, b.packed.tensor) && a.first + a.count <= b.first;
}

// Part of a flat parameter buffer with one value of weight decay.
struct DecayRange {
  int64_t begin = 0, count = 0;
  float weight_decay = 0;
};

struct FlatRange {
  int64_t begin = 0, count = 0;
};

// The values that change from step to step are in device memory, in one f64 tensor with these slots. So a step can be enqueued or
// captured without the host knowing them.
enum class StepScalar : int64_t {
  learning_rate,
  inverse_targets,  // 1 / number of unmasked targets in the global batch; in f16 times loss_scale
  updates,          // optimizer updates so far; apply_clip increments it when the gradients are finite
  loss_sum,         // sum of the losses of all unmasked targets of the step
  grad_norm,        // global norm before clipping
  clip_factor,      // AdamW multiplies gradients by it, which also divides them by loss_scale
  finite,           // 1 if loss and gradients are finite; else 0, and AdamW changes nothing
  loss_scale,       // what the gradients are multiplied by, so that f16 does not round them to zero; 1 otherwise
  growth_steps,     // f16: finite steps since the scale was changed or a step was not finite
  patience,         // f16: steps that may be not finite before the scale is lowered
  count_
};
inline constexpr int64_t kStepScalars = static_cast<int64_t>(StepScalar::count_);

// ---------------------------------------------------------------------------------------------------------- embedding

// out[n] = dropout(word[tokens[n] - first_token] + position[positions[n]]).    tokens, positions: [N] i32; word [V,C], position
// [P,C], out [N,C] act. `word` may be a part of the table: tokens outside of it count as zero rows.
struct EmbeddingForward {
  static constexpr const char* kName = "embedding_forward";
  int64_t first_token = 0;
  Tensor tokens, positions;
  Tensor word;
  Tensor position;  // optional
  Dropout dropout;
  Tensor out;
  template <class V>
  void visit(V&& v) const {
    v.in("tokens", tokens), v.in("positions", positions), v.in("word", word), v.in("position", position);
    v.in("row_keys", dropout.row_keys), v.out("out", out);
  }
};

// d_word[tokens[n] - first_token] += dropout(d_out[n]);  d_position[positions[n]] += the same, rows added in the order of n.
struct EmbeddingBackward {
  static constexpr const char* kName = "embedding_backward";
  int64_t first_token = 0;
  Tensor tokens, positions;
  Dropout dropout;
  Tensor d_out;       // [N,C] act
  Tensor d_word;      // [V,C] f32
  Tensor d_position;  // [P,C] f32, optional
  template <class V>
  void visit(V&& v) const {
    v.in("tokens", tokens), v.in("positions", positions), v.in("row_keys", dropout.row_keys), v.in("d_out", d_out);
    v.update("d_word", d_word), v.update("d_position", d_position);
  }
};

// --------------------------------------------------------------------------------------------------- residual and norm

// sum = residual + dropout(branch) + dropout2(branch2), rounded to act;
// out = norm(sum):  layernorm    (sum - mean) * rstd * weight + bias
//                   layernorm1p  (sum - mean) * rstd * (1 + weight) + bias
//                   rmsnorm      sum * rstd * weight
// mean = average over C, rstd = 1 / sqrt(average of (sum - mean)^2 + epsilon); rmsnorm: 1 / sqrt(average of sum^2 + epsilon).
// residual, branch, branch2, sum, out: [N,C] act; weight, bias [C] act; mean, rstd [N] f32.
// Without branches `sum` is absent and means `residual`. sum may alias residual. The norm reads the rounded sum, so a norm
// recomputed from a stored sum is bit-equal.
struct ResidualNormForward {
  static constexpr const char* kName = "residual_norm_forward";
  NormKind kind = NormKind::layernorm;
  float epsilon = 1e-5f;
  Tensor residual;
  Tensor branch, branch2;  // optional
  Dropout dropout, dropout2;
  Tensor weight;
  Tensor bias;  // optional
  Tensor sum;   // optional
  Operand out;
  Tensor mean;  // absent for rmsnorm
  Tensor rstd;
  template <class V>
  void visit(V&& v) const {
    v.in("residual", residual), v.in("branch", branch), v.in("branch2", branch2), v.in("row_keys", dropout.row_keys);
    v.in("weight", weight), v.in("bias", bias), v.out("sum", sum), visit_written(v, "out", out), v.out("mean", mean);
    v.out("rstd", rstd), v.in_place(sum, residual);
  }
};

// d_sum = d_residual + (gradient of norm at sum applied to d_out);  d_branch = dropout(d_sum), d_branch2 = dropout2(d_sum);
// d_weight += sum over n of d_out * normalised(sum);  d_bias += sum over n of d_out.
// sum, d_out, d_residual, d_sum, d_branch, d_branch2: [N,C] act; d_weight, d_bias [C] f32. d_sum may alias d_residual or d_out.
struct ResidualNormBackward {
  static constexpr const char* kName = "residual_norm_backward";
  NormKind kind = NormKind::layernorm;
  Tensor sum, weight, mean, rstd;
  Tensor d_out;
  Tensor d_residual;  // optional: zero
  Dropout dropout, dropout2;
  Operand d_sum;
  Operand d_branch, d_branch2;  // optional
  Tensor d_weight;
  Tensor d_bias;  // optional
  template <class V>
  void visit(V&& v) const {
    v.in("sum", sum), v.in("weight", weight), v.in("mean", mean), v.in("rstd", rstd), v.in("d_out", d_out);
    v.in("d_residual", d_residual), v.in("row_keys", dropout.row_keys), visit_written(v, "d_sum", d_sum);
    visit_written(v, "d_branch", d_branch), visit_written(v, "d_branch2", d_branch2);
    v.update("d_weight", d_weight), v.update("d_bias", d_bias), v.in_place(d_sum.tensor, d_residual),
        v.in_place(d_sum.tensor, d_out);
  }
};

// sum = residual + dropout(branch) + dropout2(branch2).    All [N,C] act; sum may alias residual.
struct ResidualAdd {
  static constexpr const char* kName = "residual_add";
  Tensor residual, branch;
  Tensor branch2;  // optional
  Dropout dropout, dropout2;
  Tensor sum;
  template <class V>
  void visit(V&& v) const {
    v.in("residual", residual), v.in("branch", branch), v.in("branch2", branch2), v.in("row_keys", dropout.row_keys);
    v.out("sum", sum), v.in_place(sum, residual);
  }
};

// d_branch = dropout(d_sum).    [N,C] act.
struct DropoutBackward {
  static constexpr const char* kName = "dropout_backward";
  Tensor d_sum;
  Dropout dropout;
  Operand d_branch;
  template <class V>
  void visit(V&& v) const {
    v.in("d_sum", d_sum), v.in("row_keys", dropout.row_keys), visit_written(v, "d_branch", d_branch);
  }
};

// ------------------------------------------------------------------------------------------------------------- linear

// pre = x weight^T + bias;  out = activation(pre).    x [N,I], weight [O,I], bias [O], pre, out [N,O], all act.
// The activation reads pre rounded to act. gelu_tanh(z) = z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))); gelu_erf(z) = z/2 (1 +
// erf(z/sqrt 2)).
struct LinearForward {
  static constexpr const char* kName = "linear_forward";
  Operand x, weight;
  Tensor bias;  // optional
  Activation activation = Activation::none;
  Tensor pre;  // present if and only if there is an activation
  Operand out;
  template <class V>
  void visit(V&& v) const {
    visit_rows(v, "x", x), visit_rows(v, "weight", weight), v.in("bias", bias), v.out("pre", pre), visit_written(v, "out", out);
  }
  double flops() const { return 2.0 * static_cast<double>(x.count()) * static_cast<double>(weight.shape()[0]); }
};

// dgrad: d_x = d_out weight. If x = activation(pre), the gradient includes it: d_x = (d_out weight) * activation'(pre).
// If x is given, it is recomputed from pre, before d_x, which may overwrite it.    d_out [N,O], weight [O,I], pre, x, d_x [N,I],
// all act.
struct LinearInputGrad {
  static constexpr const char* kName = "linear_input_grad";
  Operand d_out, weight;
  Activation activation = Activation::none;
  Tensor pre;  // present if and only if there is an activation
  Operand x;   // optional, and only with an activation
  Operand d_x;
  template <class V>
  void visit(V&& v) const {
    visit_rows(v, "d_out", d_out), visit_columns(v, "weight", weight), v.in("pre", pre), visit_written(v, "x", x);
    visit_written(v, "d_x", d_x);
    if (x.wide == Wide::scratch) v.in_place(d_x.tensor, x.tensor);
  }
  double flops() const { return 2.0 * static_cast<double>(d_out.count()) * static_cast<double>(weight.shape()[1]); }
};

// wgrad: d_weight += d_out^T x, or = with GradSum::replaces;  d_bias += sum over n of d_out.    x [N,I], d_out [N,O] act;
// d_weight [O,I], d_bias [O] f32.
struct LinearWeightGrad {
  static constexpr const char* kName = "linear_weight_grad";
  GradSum sum = GradSum::adds;
  Operand x, d_out;
  Tensor d_weight;
  Tensor d_bias;  // optional
  template <class V>
  void visit(V&& v) const {
    visit_columns(v, "x", x), visit_columns(v, "d_out", d_out), v.in("fp8_column_sums", d_out.fp8.column_sums);
    sum == GradSum::adds ? v.update("d_weight", d_weight) : v.out("d_weight", d_weight), v.update("d_bias", d_bias);
  }
  double flops() const { return 2.0 * static_cast<double>(x.count()) * static_cast<double>(d_out.shape()[1]); }
};

// out = activation(pre), the same bits as in LinearForward.    [N,F] act.
struct ActivationForward {
  static constexpr const char* kName = "activation_forward";
  Activation activation = Activation::gelu_tanh;
  Tensor pre;
  Operand out;
  template <class V>
  void visit(V&& v) const {
    v.in("pre", pre), visit_written(v, "out", out);
  }
};

// out = gate / (1 + exp(-gate)) * up.    gate_up [N,2F] act: gate in the first F columns, up in the rest; out [N,F] act.
struct SwigluForward {
  static constexpr const char* kName = "swiglu_forward";
  Tensor gate_up;
  Operand out;
  template <class V>
  void visit(V&& v) const {
    v.in("gate_up", gate_up), visit_written(v, "out", out);
  }
};

// d_gate_up = gradient of SwigluForward applied to d_out.    gate_up, d_gate_up [N,2F]; d_out [N,F]; act. d_gate_up may alias
// gate_up.
struct SwigluBackward {
  static constexpr const char* kName = "swiglu_backward";
  Tensor gate_up, d_out;
  Operand d_gate_up;
  template <class V>
  void visit(V&& v) const {
    v.in("gate_up", gate_up), v.in("d_out", d_out), visit_written(v, "d_gate_up", d_gate_up);
    if (!d_gate_up.fp8) v.in_place(d_gate_up.tensor, gate_up);  // the FP8 copies are computed in a second pass over gate_up
  }
};

// ---------------------------------------------------------------------------------------------------------- attention

// Llama 3.1's scaling of the rotary frequencies f, for texts longer than the `original` positions of its training. Waves longer
// than original / low_factor get f / factor, waves shorter than original / high_factor keep f. Between the two the frequency is
// (1 - s) f / factor + s f with s = (original f / (2 pi) - low_factor) / (high_factor - low_factor).
// `linear` divides every frequency, which is the same as dividing the positions.
struct RotaryScaling {
  double factor = 1;  // 1: no scaling by frequency
  double low_factor = 1, high_factor = 4;
  int64_t original = 8192;
  double linear = 1;
};

// base^(-2i/dims), scaled.
double rotary_frequency(double base, int64_t i, int64_t dims, const RotaryScaling& scaling);

// Rotates, in place, the first `dims` channels of each head: channel i pairs with i + dims/2 for i < dims/2, angle positions[n] *
// rotary_frequency(base, i, dims, scaling):  (a, b) -> (a cos - b sin, b cos + a sin). Backward rotates by the negative angle.
// FP8 copies are made of all packed heads, rotated or not.
struct Rotary {
  static constexpr const char* kName = "rotary";
  RotaryDirection direction = RotaryDirection::forward;
  int64_t dims = 0;
  float base = 10000;
  RotaryScaling scaling;
  Tensor positions;  // [N] i32
  HeadsView heads;
  template <class V>
  void visit(V&& v) const {
    v.in("positions", positions), v.update("heads", heads.packed.tensor), visit_copies(v, heads.packed);
  }
};

// For each batch and query head h with its key/value head h / (H/G):
//   s[i,j] = scale * q_i . k_j   for keys j < key_length that query i may see: all, or with the causal mask
//            j <= i + key_length - Tq, so that the last query sees the last key;
//   lse[i] = log sum_j exp(s[i,j]);   out_i = sum_j dropout(exp(s[i,j] - lse[i])) v_j.
// q [B,Tq,H,D], k and v [B,Tk,G,D] as views of packed heads, out [B,Tq,H,D] act; lse [B,H,Tq] f32.
// The dropout of probability (i, j) is keyed by site + h, the row key of query i, and first_key + j: the position of key j in its
// sequence, of which the keys may be a part. first_key is a multiple of 4.
// document_starts (optional): query i sees no key whose position is below its entry, the first of its document; entries do not
// fall within a sequence. A query that sees no key has lse -infinity and out 0.
struct AttentionForward {
  static constexpr const char* kName = "attention_forward";
  HeadsView q, k, v;
  int64_t key_length = 0;
  int64_t first_key = 0;
  CausalMask causal = CausalMask::yes;
  float scale = 1;
  Dropout dropout;
  Tensor document_starts;  // [B*Tq] i32
  Operand out;
  Tensor lse;
  template <class V>
  void visit(V&& visitor) const {
    visitor.in("q", q.packed.tensor);
    if (!same_tensor(q, k)) visitor.in("k", k.packed.tensor);
    if (!same_tensor(k, v)) visitor.in("v", v.packed.tensor);
    visitor.in("row_keys", dropout.row_keys), visitor.in("document_starts", document_starts);
    visit_written(visitor, "out", out), visitor.out("lse", lse);
  }
  double flops() const;
};

// Gradients of AttentionForward. d_q, d_k, d_v are overwritten, not added to. With G < H the gradients of the query heads that
// share a key/value head are summed. FP8 copies are made only of packed heads that hold all three.
struct AttentionBackward {
  static constexpr const char* kName = "attention_backward";
  HeadsView q, k, v;
  int64_t key_length = 0;
  int64_t first_key = 0;
  CausalMask causal = CausalMask::yes;
  float scale = 1;
  Dropout dropout;
  Tensor document_starts;  // [B*Tq] i32
  Tensor out, lse;         // of forward; if the keys are only a part of those a query sees: of all parts together
  Tensor d_out;            // [B,Tq,H,D] act
  HeadsView d_q, d_k, d_v;
  template <class V>
  void visit(V&& visitor) const {
    visitor.in("q", q.packed.tensor);
    if (!same_tensor(q, k)) visitor.in("k", k.packed.tensor);
    if (!same_tensor(k, v)) visitor.in("v", v.packed.tensor);
    visitor.in("row_keys", dropout.row_keys), visitor.in("document_starts", document_starts);
    visitor.in("out", out), visitor.in("lse", lse), visitor.in("d_out", d_out);
    visit_written(visitor, "d_q", d_q.packed);
    if (!same_tensor(d_q, d_k)) visitor.out("d_k", d_k.packed.tensor);
    if (!same_tensor(d_k, d_v)) visitor.out("d_v", d_v.packed.tensor);
  }
  double flops() const;
};

// Merges the results of two parts of the keys for the same queries:  l = log(exp(lse) + exp(part_lse));
//   out = exp(lse - l) out + exp(part_lse - l) part_out;  lse = l.    out, part_out [B,T,H,D] act; lse, part_lse [B,H,T] f32.
struct MergeAttention {
  static constexpr const char* kName = "merge_attention";
  Tensor part_out, part_lse;
  Tensor out, lse;
  template <class V>
  void visit(V&& v) const {
    v.in("part_out", part_out), v.in("part_lse", part_lse), v.update("out", out), v.update("lse", lse);
  }
};

// to[b, to_position + t] = from[b, t] for the heads of both views. Used to append keys and values to a cache.    [B,T,*,D] act.
struct CopyHeads {
  static constexpr const char* kName = "copy_heads";
  HeadsView from, to;
  int64_t to_position = 0;
  template <class V>
  void visit(V&& v) const {
    v.in("from", from.packed.tensor), v.out("to", to.packed.tensor);
  }
};

// --------------------------------------------------------------------------------------------------------------- loss

// `logits` may be a part of the vocabulary: the columns from `first_column` on. The first `vocabulary` of them count, the rest is
// padding. Per row: row_max = max, row_sum = sum exp(logit - row_max), target_logit = the logit of targets[n], 0 if it is in
// another part or masked (targets[n] < 0).    logits [n,V] act; targets [n] i32; the rest [n] f32.
// The loss is several ops, because with a vocabulary split over ranks the three statistics are reduced over the ranks between
// them.
struct CrossEntropyStats {
  static constexpr const char* kName = "cross_entropy_stats";
  int64_t first_column = 0, vocabulary = 0;
  Tensor logits, targets;
  Tensor row_max, row_sum, target_logit;
  template <class V>
  void visit(V&& v) const {
    v.in("logits", logits), v.in("targets", targets);
    v.out("row_max", row_max), v.out("row_sum", row_sum), v.out("target_logit", target_logit);
  }
};

// row_sum *= exp(part_max - row_max): rescales a part's sum to the maximum of the whole row.    [n] f32; row_max >= part_max.
struct RescaleSums {
  static constexpr const char* kName = "rescale_sums";
  Tensor part_max, row_max;
  Tensor row_sum;
  template <class V>
  void visit(V&& v) const {
    v.in("part_max", part_max), v.in("row_max", row_max), v.update("row_sum", row_sum);
  }
};

// losses[n] = log(row_sum) + row_max - target_logit, 0 where targets[n] < 0 (masked);  scalars.loss_sum += sum of losses;
// with WriteGrad::yes, logits become their gradient: (exp(logit - row_max) / row_sum - [c == target]) * scalars.inverse_targets,
// 0 in masked rows and in the padding.
struct CrossEntropyGrad {
  static constexpr const char* kName = "cross_entropy_grad";
  int64_t first_column = 0, vocabulary = 0;
  WriteGrad write_grad = WriteGrad::yes;
  Tensor targets, row_max, row_sum, target_logit;
  Tensor logits;   // [n,V] act
  Tensor losses;   // [n] f32
  Tensor scalars;  // [kStepScalars] f64
  template <class V>
  void visit(V&& v) const {
    v.in("targets", targets), v.in("row_max", row_max), v.in("row_sum", row_sum), v.in("target_logit", target_logit);
    v.update("logits", logits), v.out("losses", losses), v.update("scalars", scalars);
  }
};

// CrossEntropyStats and CrossEntropyGrad in one op for a vocabulary that is not split, so that a backend can read the logits
// once.
struct CrossEntropy {
  static constexpr const char* kName = "cross_entropy";
  int64_t vocabulary = 0;
  WriteGrad write_grad = WriteGrad::yes;
  Tensor targets;
  Tensor row_max, row_sum, target_logit;
  Tensor logits, losses, scalars;
  template <class V>
  void visit(V&& v) const {
    v.in("targets", targets), v.out("row_max", row_max), v.out("row_sum", row_sum), v.out("target_logit", target_logit);
    v.update("logits", logits), v.out("losses", losses), v.update("scalars", scalars);
  }
  CrossEntropyStats stats() const { return {0, vocabulary, logits, targets, row_max, row_sum, target_logit}; }
  CrossEntropyGrad grad() const {
    return {0, vocabulary, write_grad, targets, row_max, row_sum, target_logit, logits, losses, scalars};
  }
};

// ---------------------------------------------------------------------------------------------------------- optimizer

// squares[r] = sum of squares over ranges[r] of grads, in a fixed order.    grads flat f32; squares [ranges] f64.
struct SquaredNorms {
  static constexpr const char* kName = "squared_norms";
  std::span<const FlatRange> ranges;
  Tensor grads, squares;
  template <class V>
  void visit(V&& v) const {
    v.in("grads", grads), v.out("squares", squares);
  }
};

// Sets scalars: grad_norm = sqrt(sum squares) / loss_scale; finite = whether grad_norm and loss_sum are; clip_factor = max_norm /
// (grad_norm + 1e-6) if that is below 1 and max_norm > 0, else 1, divided by loss_scale; updates += finite.
struct ApplyClip {
  static constexpr const char* kName = "apply_clip";
  double max_norm = 0;
  Tensor squares, scalars;
  template <class V>
  void visit(V&& v) const {
    v.in("squares", squares), v.update("scalars", scalars);
  }
};

// scalars.inverse_targets *= scalars.loss_scale.
struct ScaleLoss {
  static constexpr const char* kName = "scale_loss";
  Tensor scalars;
  template <class V>
  void visit(V&& v) const {
    v.update("scalars", scalars);
  }
};

// Adapts scalars.loss_scale to the step that was made with it, by the rules of PyTorch's GradScaler, with the hysteresis of
// NeMo's:
//   finite:      patience = hysteresis; after growth_interval such steps in a row, loss_scale *= 2 if that is finite in f32
//   not finite:  patience -= 1; if that leaves none, loss_scale /= 2
struct UpdateLossScale {
  static constexpr const char* kName = "update_loss_scale";
  static constexpr double kGrowth = 2, kBackoff = 0.5;
  int64_t growth_interval = 1;
  int64_t hysteresis = 1;
  Tensor scalars;
  template <class V>
  void visit(V&& v) const {
    v.update("scalars", scalars);
  }
};

// If scalars.finite:  g = grad * clip_factor;  m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2;
//   master = master - lr * ( m / (1-beta1^updates) / (sqrt(v / (1-beta2^updates)) + epsilon) + weight_decay master );
//   weights = master.
// grads, master: flat f32; m, v: flat f32 or bf16, computed in f32 and rounded when they are stored; weights: flat act, may be
// master itself. weight_decay is set per range. The ranges cover the buffer in order; gaps between them are padding and stay
// unchanged.
struct AdamW {
  static constexpr const char* kName = "adamw";
  std::span<const DecayRange> ranges;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  Tensor grads, scalars;
  Tensor master, m, v;
  Tensor weights;
  template <class V>
  void visit(V&& visitor) const {
    visitor.in("grads", grads), visitor.in("scalars", scalars), visitor.update("master", master), visitor.update("m", m);
    visitor.update("v", v);
    if (!same_tensor(weights, master)) visitor.out("weights", weights);
  }
};

// ---------------------------------------------------------------------------------------------------------------- FP8

// Fills the FP8 copies of a tensor [N,C] act. N and C are multiples of 16.
//   current scaling   amax = largest |x|; if amax is finite and above 0: scale = largest / amax, inverse = 1 / scale
//   delayed scaling   amax = max(amax, |x|); scale and inverse are only read
// Then values[n,c] = transposed[c,n] = x * scale, rounded to nearest, ties to even, and saturated.
struct Quantize {
  static constexpr const char* kName = "quantize";
  Operand x;
  template <class V>
  void visit(V&& v) const {
    v.in("x", x.tensor), visit_copies(v, x);
  }
};

// Fills the FP8 copies of norm(sum), rounded to act first. ResidualNormForward defines the norm and has written mean and rstd.
// The tensor of `out` is not written.    sum, out [N,C] act; weight, bias [C] act; mean, rstd [N] f32.
struct QuantizeNorm {
  static constexpr const char* kName = "quantize_norm";
  NormKind kind = NormKind::layernorm;
  Tensor sum;
  Tensor weight;
  Tensor bias;  // optional
  Tensor mean;  // absent for rmsnorm
  Tensor rstd;
  Operand out;
  template <class V>
  void visit(V&& v) const {
    v.in("sum", sum), v.in("weight", weight), v.in("bias", bias), v.in("mean", mean), v.in("rstd", rstd);
    visit_copies(v, out);
  }
};

// For each row r: histories[r] shifts right by one and starts with amax[r] (0 if that is not finite). a = its largest or its
// first value. If a > 0: scale = largest / a, inverse = 1 / scale.
// amax [rows] f32; table [rows, at least kHistory + history] f32: inverse, scale, two unused columns, and the amaxes of earlier
// steps, the most recent first.
struct UpdateScales {
  static constexpr const char* kName = "update_scales";
  static constexpr int64_t kInverse = 0, kScale = 1, kHistory = 4;  // columns of the table
  AmaxChoice choice = AmaxChoice::largest;
  float largest = 0;
  int64_t history = 1;
  Tensor amax;
  Tensor table;
  template <class V>
  void visit(V&& v) const {
    v.in("amax", amax), v.update("table", table);
  }
};

// ------------------------------------------------------------------------------------------------------------- memory

// out[i] = value.    f32, bf16, f16 or f64.
struct Fill {
  static constexpr const char* kName = "fill";
  double value = 0;
  Tensor out;
  template <class V>
  void visit(V&& v) const {
    v.out("out", out);
  }
};

// to[i] = from[i], converted.    From or to f32, with bf16 or f16 at the other side; all dtypes to themselves.
struct Copy {
  static constexpr const char* kName = "copy";
  Tensor from, to;
  template <class V>
  void visit(V&& v) const {
    v.in("from", from), v.out("to", to);
  }
};

// to[i] += from[i], converted.    to f32; from f32, bf16 or f16.
struct Accumulate {
  static constexpr const char* kName = "accumulate";
  Tensor from, to;
  template <class V>
  void visit(V&& v) const {
    v.in("from", from), v.update("to", to);
  }
};

// out[i] = mean + deviation * normal(first + i), where normal(index) comes from philox(seed, {index/4 low, index/4 high, site,
// 0}).    f32.
struct RandomNormal {
  static constexpr const char* kName = "random_normal";
  double mean = 0, deviation = 1;
  uint64_t seed = 0;
  uint32_t site = 0;
  int64_t first = 0;
  Tensor out;
  template <class V>
  void visit(V&& v) const {
    v.out("out", out);
  }
};

// The list of all ops; X(Op) once each. clang-format would change its layout every time.
// clang-format off
#define TRIREME_OPS(X) \
  X(EmbeddingForward) \
  X(EmbeddingBackward) \
  X(ResidualNormForward) \
  X(ResidualNormBackward) \
  X(ResidualAdd) \
  X(DropoutBackward) \
  X(LinearForward) \
  X(LinearInputGrad) \
  X(LinearWeightGrad) \
  X(ActivationForward) \
  X(SwigluForward) \
  X(SwigluBackward) \
  X(Rotary) \
  X(AttentionForward) \
  X(AttentionBackward) \
  X(MergeAttention) \
  X(CopyHeads) \
  X(CrossEntropyStats) \
  X(RescaleSums) \
  X(CrossEntropyGrad) \
  X(CrossEntropy) \
  X(SquaredNorms) \
  X(ApplyClip) \
  X(ScaleLoss) \
  X(UpdateLossScale) \
  X(AdamW) \
  X(Quantize) \
  X(QuantizeNorm) \
  X(UpdateScales) \
  X(Fill) \
  X(Copy) \
  X(Accumulate) \
  X(RandomNormal)
// clang-format on

}  // namespace trireme
