#include "model/ring_attention.h"

#include "data/batch/sequence_cut.h"
#include "model/heads.h"

namespace trireme {
namespace {

// Keys and values of other ranks, and what is added up for them.
struct RingBuffers {
  Tensor key_values[2];    // [N,2G,D]: this rank's and those that arrive, or those that leave and those that arrive
  Tensor d_key_values[2];  // [N,2G,D]
  Tensor part_out;         // [B,T/2,H,D] of one block of keys; in backward its d_q
  Tensor part_lse;         // [B,H,T/2] f32
  Tensor d_queries;        // [N,H,D] sums of d_q
  Tensor part_d_keys;      // [B,T/2,2G,D] of one block
};

RingBuffers take_buffers(const Context& context) {
  const Dims& d = context.dims;
  const int64_t half = div_exact(d.T, 2);
  RingBuffers ring;
  for (Tensor& buffer : ring.key_values) buffer = context.take("ring_keys", {d.N(), 2 * d.G, d.D});
  for (Tensor& buffer : ring.d_key_values) buffer = context.take("ring_d_keys", {d.N(), 2 * d.G, d.D});
  ring.part_out = context.take("ring_part_out", {d.B, half, d.H, d.D});
  ring.part_lse = context.take_f32("ring_part_lse", {d.B, d.H, half});
  ring.d_queries = context.take("ring_d_queries", {d.N(), d.H, d.D});
  ring.part_d_keys = context.take("ring_part_d_keys", {d.B, half, 2 * d.G, d.D});
  return ring;
}

class KeyRing {
 public:
  explicit KeyRing(const BlockPass& pass)
      : context_(pass.context),
        layer_(pass.layer),
        a_(pass.a),
        buffers_(take_buffers(pass.context)),
        half_(pass.context.dims.T / 2) {}

  void forward() const;
  void backward(Tensor d_attended, Tensor d_qkv) const;

 private:
  // Queries of one half and keys of one half of some rank.
  struct Block {
    int64_t queries = 0, keys = 0;
    int64_t key_part = 0;  // of the sequence
    CausalMask causal = CausalMask::no;
    bool first_of_queries = false, first_of_keys = false;  // nothing was added for them yet
  };

  int next() const { return (context_.cp.rank() + 1) % context_.cp.size(); }
  int previous() const { return (context_.cp.rank() + context_.cp.size() - 1) % context_.cp.size(); }
  // [B,T,*,D] or [N,*,D] as half of its rows, [B,T/2,*,D]; and statistics [B,H,T] as [B,H,T/2].
  Tensor half_of(Tensor rows, int64_t half) const {
    const Dims& d = context_.dims;
    return rows.reshaped({2 * d.B, half_, rows.count() / (2 * d.B * half_ * d.D), d.D}).rows(half * d.B, d.B);
  }
  Tensor half_of_statistics(Tensor lse, int64_t half) const {
    const Dims& d = context_.dims;
    return lse.reshaped({2 * d.B, d.H, half_}).rows(half * d.B, d.B);
  }
  Dropout dropout(int64_t half) const;
  Tensor document_starts(int64_t half) const;

  // Calls visit(block) for the visible blocks of a step of the ring, in which this rank holds the keys of rank - step.
  template <class Visit>
  void for_each_block(int64_t step, const Visit& visit) const;
  void begin() const;
  // Sends the keys of this step to the next rank and receives those of the next step.
  Event pass_on(int64_t step) const;
  void attend(const Block& block, Tensor key_values) const;
  void attend_backward(const Block& block, Tensor key_values, Tensor d_attended, Tensor d_key_values) const;
  void add(Tensor part, Tensor to) const;

  const Context& context_;
  int64_t layer_;
  const BlockActivations& a_;
  RingBuffers buffers_;  // those of backward have no memory in forward, where no op uses them
  int64_t half_;         // positions in a part
};

Dropout KeyRing::dropout(int64_t half) const {
  Dropout whole = context_.attention_dropout(layer_);
  const int64_t rows = context_.dims.B * half_;
  if (whole.active()) whole.row_keys = whole.row_keys.rows(half * rows, rows);
  return whole;
}

Tensor KeyRing::document_starts(int64_t half) const {
  const Tensor whole = context_.batch.document_starts;
  const int64_t rows = context_.dims.B * half_;
  return whole ? whole.rows(half * rows, rows) : whole;
}

template <class Visit>
void KeyRing::for_each_block(int64_t step, const Visit& visit) const {
  const int64_t ranks = context_.cp.size(), me = context_.cp.rank();
  const SequenceCut mine{.rank = me, .ranks = ranks}, owners{.rank = (me - step + ranks) % ranks, .ranks = ranks};
  for (int64_t keys = 0; keys < 2; ++keys)
    for (int64_t queries = 0; queries < 2; ++queries) {
      const int64_t key_part = owners.part_number(keys), query_part = mine.part_number(queries);
      if (key_part > query_part) continue;
      visit(Block{.queries = queries,
                  .keys = keys,
                  .key_part = key_part,
                  .causal = key_part == query_part ? CausalMask::yes : CausalMask::no,
                  .first_of_queries = step == 0 && keys == 0,
                  .first_of_keys = step == 0 && queries == keys});
    }
}

void KeyRing::begin() const {
  const Dims& d = context_.dims;
  for (int64_t half = 0; half < 2; ++half)
    context_.backend.run(kCompute, CopyHeads{.from = {half_of(a_.qkv, half), d.H, 2 * d.G},
                                             .to = {half_of(buffers_.key_values[0], half), 0, 2 * d.G}});
}

Event KeyRing::pass_on(int64_t step) const {
  Backend& backend = context_.backend;
  const Event ready = backend.record(kCompute, "keys_here");
  backend.wait(kRingSend, ready);
  context_.cp.send(kRingSend, buffers_.key_values[step % 2], next());
  backend.wait(kRingReceive, ready);
  context_.cp.receive(kRingReceive, buffers_.key_values[(step + 1) % 2], previous());
  return backend.record(kRingReceive, "keys_received");
}

void KeyRing::attend(const Block& block, Tensor key_values) const {
  const Dims& d = context_.dims;
  const Tensor keys = half_of(key_values, block.keys);
  const Tensor out = half_of(a_.attended, block.queries), lse = half_of_statistics(a_.lse, block.queries);
  context_.backend.run(kCompute, AttentionForward{.q = {half_of(a_.qkv, block.queries), 0, d.H},
                                                  .k = {keys, 0, d.G},
                                                  .v = {keys, d.G, d.G},
                                                  .key_length = half_,
                                                  .first_key = block.key_part * half_,
                                                  .causal = block.causal,
                                                  .scale = score_scale(d),
                                                  .dropout = dropout(block.queries),
                                                  .document_starts = document_starts(block.queries),
                                                  .out = block.first_of_queries ? out : buffers_.part_out,
                                                  .lse = block.first_of_queries ? lse : buffers_.part_lse});
  if (block.first_of_queries) return;
  context_.backend.run(kCompute,
                       MergeAttention{.part_out = buffers_.part_out, .part_lse = buffers_.part_lse, .out = out, .lse = lse});
}

void KeyRing::forward() const {
  Backend& backend = context_.backend;
  begin();
  for (int64_t step = 0; step < context_.cp.size(); ++step) {
    const bool goes_on = step + 1 < context_.cp.size();
    const Event received = goes_on ? pass_on(step) : Event{};
    for_each_block(step, [&](const Block& block) { attend(block, buffers_.key_values[step % 2]); });
    if (!goes_on) break;
    backend.wait(kCompute, received);
    backend.wait(kCompute, backend.record(kRingSend, "keys_sent"));
  }
}

void KeyRing::add(Tensor part, Tensor to) const {
  const Shape rows{part.shape[0] * part.shape[1], part.shape[2] * part.shape[3]};
  context_.backend.run(kCompute,
                       ResidualAdd{.residual = to.reshaped(rows), .branch = part.reshaped(rows), .sum = to.reshaped(rows)});
}

void KeyRing::attend_backward(const Block& block, Tensor key_values, Tensor d_attended, Tensor d_key_values) const {
  const Dims& d = context_.dims;
  const Tensor keys = half_of(key_values, block.keys);
  const Tensor d_queries = half_of(buffers_.d_queries, block.queries), d_keys = half_of(d_key_values, block.keys);
  const Tensor to_queries = block.first_of_queries ? d_queries : buffers_.part_out;
  const Tensor to_keys = block.first_of_keys ? d_keys : buffers_.part_d_keys;
  context_.backend.run(kCompute, AttentionBackward{.q = {half_of(a_.qkv, block.queries), 0, d.H},
                                                   .k = {keys, 0, d.G},
                                                   .v = {keys, d.G, d.G},
                                                   .key_length = half_,
                                                   .first_key = block.key_part * half_,
                                                   .causal = block.causal,
                                                   .scale = score_scale(d),
                                                   .dropout = dropout(block.queries),
                                                   .document_starts = document_starts(block.queries),
                                                   .out = half_of(a_.attended, block.queries),
                                                   .lse = half_of_statistics(a_.lse, block.queries),
                                                   .d_out = half_of(d_attended, block.queries),
                                                   .d_q = {to_queries, 0, d.H},
                                                   .d_k = {to_keys, 0, d.G},
                                                   .d_v = {to_keys, d.G, d.G}});
  if (!block.first_of_queries) add(to_queries, d_queries);
  if (!block.first_of_keys) add(to_keys, d_keys);
}

// After step s a rank has added its share to the gradients of the keys that it held. It sends them to the next rank, which holds
// these keys in step s + 1. After the last step they return to their owner.
void KeyRing::backward(Tensor d_attended, Tensor d_qkv) const {
  const Dims& d = context_.dims;
  Backend& backend = context_.backend;
  const int64_t steps = context_.cp.size();
  begin();
  Event gradients_received, gradients_sent;
  for (int64_t step = 0; step < steps; ++step) {
    const bool goes_on = step + 1 < steps;
    const Event received = goes_on ? pass_on(step) : Event{};
    if (step > 0) backend.wait(kCompute, gradients_received);
    for_each_block(step, [&](const Block& block) {
      attend_backward(block, buffers_.key_values[step % 2], d_attended, buffers_.d_key_values[step % 2]);
    });
    const Event added = backend.record(kCompute, "share_added");
    backend.wait(kRingGradReceive, added);
    // The receive buffer is the one that the previous send reads from.
    if (step > 0) backend.wait(kRingGradReceive, gradients_sent);
    context_.cp.receive(kRingGradReceive, buffers_.d_key_values[(step + 1) % 2], previous());
    gradients_received = backend.record(kRingGradReceive, "gradients_received");
    backend.wait(kRingGradSend, added);
    context_.cp.send(kRingGradSend, buffers_.d_key_values[step % 2], next());
    gradients_sent = backend.record(kRingGradSend, "gradients_sent");
    if (!goes_on) break;
    backend.wait(kCompute, received);
    backend.wait(kCompute, backend.record(kRingSend, "keys_sent"));
  }
  backend.wait(kCompute, gradients_received);
  backend.wait(kCompute, gradients_sent);
  for (int64_t half = 0; half < 2; ++half) {
    const Tensor to = half_of(d_qkv, half);
    backend.run(kCompute, CopyHeads{.from = {half_of(buffers_.d_queries, half), 0, d.H}, .to = {to, 0, d.H}});
    backend.run(kCompute,
                CopyHeads{.from = {half_of(buffers_.d_key_values[steps % 2], half), 0, 2 * d.G}, .to = {to, d.H, 2 * d.G}});
  }
}

}  // namespace

void ring_attention_forward(const BlockPass& pass) { KeyRing(pass).forward(); }

void ring_attention_backward(const BlockPass& pass, Tensor d_attended, Tensor d_qkv) {
  KeyRing(pass).backward(d_attended, d_qkv);
}

}  // namespace trireme
