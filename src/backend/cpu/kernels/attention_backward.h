// Attention backward by blocks. A task has chunks of queries of the heads that share one key/value head. Every query block of a
// chunk is combined with every block of keys it sees, and scores are recomputed from the log-sum-exp. The assignment of chunks to
// tasks is fixed, so each gradient is always summed in the same order.
#pragma once

#include "backend/cpu/kernels/attention_pack.h"
#include "backend/cpu/kernels/attention_softmax.h"

namespace trireme::cpu::TRIREME_ISA::attention {

template <class Engine>
struct BackwardScratch {
  using Element = typename Engine::Element;
  static constexpr int64_t kRows = kAttentionQueryBlock, kKeys = Engine::kBackwardKeys;

  BackwardScratch(const AttentionArguments& a, void* base) {
    ScratchLayout layout(base);
    stride = Engine::padded_width(a.width);
    query_elements = Engine::query_elements(a.width);
    const int64_t blocks = blocks_of(smaller(a.queries, kAttentionBackwardChunk), kRows);
    queries = layout.take<Element>(blocks * query_elements);
    d_out = layout.take<Element>(blocks * query_elements);
    d_queries = layout.take<float>(blocks * kRows * stride);
    lse = layout.take<float>(blocks * kRows);
    delta = layout.take<float>(blocks * kRows);
    keys_for_scores = layout.take<Element>(kKeys * stride);
    keys_for_sums = layout.take<Element>(kKeys * stride);
    values_for_scores = layout.take<Element>(kKeys * stride);
    scores = layout.take<float>(kRows * kKeys);
    d_probabilities = layout.take<float>(kRows * kKeys);
    probabilities = Engine::kInPlace ? reinterpret_cast<Element*>(scores) : layout.take<Element>(kRows * kKeys);
    d_scores = Engine::kInPlace ? reinterpret_cast<Element*>(d_probabilities) : layout.take<Element>(kRows * kKeys);
    work = layout.take<Element>(Engine::kWorkElements);
    bytes = layout.used();
  }

  int64_t stride;                                                // padded D
  int64_t query_elements;                                        // of one packed query block
  Element *queries, *d_out;                                      // packed, one chunk of one head
  float* d_queries;                                              // [chunk][stride]
  float *lse, *delta;                                            // [chunk]
  Element *keys_for_scores, *keys_for_sums, *values_for_scores;  // one block
  float *scores, *d_probabilities;                               // [kRows][kKeys]
  Element *probabilities, *d_scores;                             // [kRows][kKeys]
  Element* work;
  int64_t bytes;
};

template <class Engine>
int64_t backward_scratch_bytes(const AttentionArguments& a) {
  return BackwardScratch<Engine>(a, nullptr).bytes;
}

// Sums of d_k and d_v over queries, per block of keys, in the layout of the engine.
template <class Engine>
struct KeyGradients {
  KeyGradients(const AttentionArguments& a, float* base)
      : stride(Engine::padded_width(a.width)),
        size(padded(a.keys, Engine::kBackwardKeys) * stride),
        d_keys(base),
        d_values(base == nullptr ? nullptr : base + size) {}

  int64_t stride;  // offset of a block of keys: its first key times this
  int64_t size;    // floats in each
  float *d_keys, *d_values;
};

template <class Engine>
int64_t key_gradient_bytes(const AttentionArguments& a) {
  return 2 * KeyGradients<Engine>(a, nullptr).size * static_cast<int64_t>(sizeof(float));
}

// Queries begin, ..., end - 1 of one head.
struct BackwardChunk {
  int64_t batch, head, begin, end;
};

template <class Engine>
void start_chunk(const AttentionBackwardArguments& b, const BackwardChunk& chunk, const BackwardScratch<Engine>& scratch) {
  using Source = typename Engine::Source;
  const AttentionArguments& a = b.forward;
  const float* lse = a.lse + (chunk.batch * a.heads + chunk.head) * a.queries;
  for (int64_t i = chunk.begin; i < chunk.end; i += kAttentionQueryBlock) {
    const int64_t rows = smaller(kAttentionQueryBlock, chunk.end - i), block = (i - chunk.begin) / kAttentionQueryBlock;
    const Source* q = head_rows<const Source>(a.q, chunk.batch, chunk.head, a.width, i);
    const Source* out = head_rows<const Source>(a.out, chunk.batch, chunk.head, a.width, i);
    const Source* d_out = head_rows<const Source>(b.d_out, chunk.batch, chunk.head, a.width, i);
    Engine::pack_queries(q, a.q.row_stride, rows, a.width, scratch.queries + block * scratch.query_elements);
    Engine::pack_queries(d_out, b.d_out.row_stride, rows, a.width, scratch.d_out + block * scratch.query_elements);
    for (int64_t r = 0; r < rows; ++r) {
      scratch.lse[i - chunk.begin + r] = lse[i + r];
      scratch.delta[i - chunk.begin + r] = dot(d_out + r * b.d_out.row_stride, out + r * a.out.row_stride, a.width);
    }
  }
  clear(scratch.d_queries, padded(chunk.end - chunk.begin, kAttentionQueryBlock) * scratch.stride);
}

// Processes one query block of the chunk with the packed block of keys that starts at `key`.
template <class Engine>
void backward_block(const AttentionArguments& a, const BackwardChunk& chunk, const BackwardScratch<Engine>& scratch,
                    const KeyGradients<Engine>& sums, int64_t query, int64_t key, int64_t columns) {
  constexpr int64_t kKeys = Engine::kBackwardKeys;
  const ScoreBlock block = score_block(a, query, smaller(kAttentionQueryBlock, chunk.end - query), key, columns);
  const HiddenColumns hidden = hidden_columns(a, chunk.batch, query, key);
  if (block.visible(block.rows - 1) == 0 || hidden.of(0) >= columns) return;
  const int64_t row = query - chunk.begin;
  const typename Engine::Element* queries = scratch.queries + row / kAttentionQueryBlock * scratch.query_elements;
  const typename Engine::Element* d_out = scratch.d_out + row / kAttentionQueryBlock * scratch.query_elements;

  Engine::template scores<kKeys>(block, a.width, queries, scratch.keys_for_scores, scratch.scores);
  hide(block, hidden, scratch.scores, kKeys);
  Engine::template scores<kKeys>(block, a.width, d_out, scratch.values_for_scores, scratch.d_probabilities);
  const BlockDropout dropout{
      .arguments = a.dropout, .head = chunk.head, .first_row = chunk.batch * a.queries + query, .first_key = a.first_key + key};
  const auto gradient_rows = a.dropout.active ? softmax_gradient_rows<Engine, true> : softmax_gradient_rows<Engine, false>;
  gradient_rows(block, a.scale, dropout, scratch.lse + row, scratch.delta + row, scratch.scores, scratch.d_probabilities, kKeys,
                scratch.probabilities, scratch.d_scores);
  Engine::template add_key_gradient<kKeys>(block, a.width, scratch.probabilities, d_out, sums.d_values + key * sums.stride,
                                           scratch.work);
  Engine::template add_key_gradient<kKeys>(block, a.width, scratch.d_scores, queries, sums.d_keys + key * sums.stride,
                                           scratch.work);
  Engine::template add_weighted_sums<kKeys>(block, a.width, scratch.d_scores, scratch.keys_for_sums,
                                            scratch.d_queries + row * scratch.stride);
}

template <class Engine>
void backward_chunk(const AttentionBackwardArguments& b, const BackwardChunk& chunk, const BackwardScratch<Engine>& scratch,
                    const KeyGradients<Engine>& sums) {
  using Source = typename Engine::Source;
  constexpr int64_t kKeys = Engine::kBackwardKeys;
  const AttentionArguments& a = b.forward;
  start_chunk<Engine>(b, chunk, scratch);
  const int64_t key_end = visible_keys(a, chunk.end - 1);
  for (int64_t key = 0; key < key_end; key += kKeys) {
    const int64_t columns = smaller(kKeys, key_end - key);
    const Source* k = head_rows<const Source>(a.k, chunk.batch, chunk.head / a.group, a.width, key);
    const Source* v = head_rows<const Source>(a.v, chunk.batch, chunk.head / a.group, a.width, key);
    Engine::template pack_keys_for_scores<kKeys>(k, a.k.row_stride, columns, a.width, scratch.keys_for_scores);
    Engine::template pack_keys_for_scores<kKeys>(v, a.v.row_stride, columns, a.width, scratch.values_for_scores);
    Engine::pack_keys_for_sums(k, a.k.row_stride, columns, a.width, scratch.keys_for_sums);
    for (int64_t query = chunk.begin; query < chunk.end; query += kAttentionQueryBlock)
      backward_block<Engine>(a, chunk, scratch, sums, query, key, columns);
  }
  for (int64_t i = chunk.begin; i < chunk.end; ++i)
    unpack_row(scratch.d_queries + (i - chunk.begin) * scratch.stride, a.scale, a.width,
               head_rows<Source>(b.d_q, chunk.batch, chunk.head, a.width, i));
}

template <class Engine>
void attention_backward(const AttentionBackwardArguments& b, const AttentionBackwardTask& task, void* memory,
                        float* key_gradients) {
  [[maybe_unused]] const typename Engine::Session session;
  const AttentionArguments& a = b.forward;
  const BackwardScratch<Engine> scratch(a, memory);
  const KeyGradients<Engine> sums(a, key_gradients);
  clear(sums.d_keys, sums.size);
  clear(sums.d_values, sums.size);
  const int64_t chunks = blocks_of(a.queries, kAttentionBackwardChunk);
  for (int64_t unit = task.part; unit < a.group * chunks; unit += task.parts) {
    const int64_t begin = unit % chunks * kAttentionBackwardChunk;
    const BackwardChunk chunk{.batch = task.batch,
                              .head = task.key_head * a.group + unit / chunks,
                              .begin = begin,
                              .end = smaller(begin + kAttentionBackwardChunk, a.queries)};
    backward_chunk<Engine>(b, chunk, scratch, sums);
  }
}

template <class Engine>
void store_key_gradients(const AttentionBackwardArguments& b, int64_t batch, int64_t key_head, int64_t parts,
                         float* key_gradients) {
  using Source = typename Engine::Source;
  constexpr int64_t kKeys = Engine::kBackwardKeys;
  const AttentionArguments& a = b.forward;
  const KeyGradients<Engine> sums(a, key_gradients);
  for (int64_t part = 1; part < parts; ++part) {
    const float* more = key_gradients + part * 2 * sums.size;
    for (int64_t i = 0; i < 2 * sums.size; i += kLanes) store(key_gradients + i, load(key_gradients + i) + load(more + i));
  }
  for (int64_t key = 0; key < a.keys; key += kKeys) {
    const int64_t rows = smaller(kKeys, a.keys - key);
    Engine::template store_key_gradient<kKeys>(sums.d_keys + key * sums.stride, a.scale, rows, a.width,
                                               head_rows<Source>(b.d_k, batch, key_head, a.width, key), b.d_k.row_stride);
    Engine::template store_key_gradient<kKeys>(sums.d_values + key * sums.stride, 1, rows, a.width,
                                               head_rows<Source>(b.d_v, batch, key_head, a.width, key), b.d_v.row_stride);
  }
}

}  // namespace trireme::cpu::TRIREME_ISA::attention
