// Attention forward by blocks. Each block of keys is combined with all query blocks of the task, and each query row keeps its
// running maximum, sum and output. Only one block of the score matrix exists at a time.
#pragma once

#include "backend/cpu/kernels/attention_pack.h"
#include "backend/cpu/kernels/attention_softmax.h"

namespace trireme::cpu::TRIREME_ISA::attention {

// A task's queries are the rows of all heads of the group, block by block: block (head, i) has index head * blocks + i.
template <class Engine>
struct ForwardScratch {
  using Element = typename Engine::Element;
  static constexpr int64_t kRows = kAttentionQueryBlock, kKeys = Engine::kForwardKeys;

  ForwardScratch(const AttentionArguments& a, int64_t task_queries, void* base) {
    ScratchLayout layout(base);
    blocks = blocks_of(task_queries, kRows);
    stride = Engine::padded_width(a.width);
    const int64_t rows = a.group * blocks * kRows;
    queries = layout.take<Element>(rows * stride);
    out = layout.take<float>(rows * stride);
    sum = layout.take<float>(rows * kLanes);
    top = layout.take<float>(rows);
    keys = layout.take<Element>(kKeys * stride);
    values = layout.take<Element>(kKeys * stride);
    scores = layout.take<float>(kRows * kKeys);
    probabilities = Engine::kInPlace ? reinterpret_cast<Element*>(scores) : layout.take<Element>(kRows * kKeys);
    bytes = layout.used();
  }

  OnlineSoftmax state(int64_t block) const {
    const int64_t row = block * kRows;
    return {.top = top + row, .sum = sum + row * kLanes, .out = out + row * stride, .out_stride = stride};
  }

  int64_t blocks;          // query blocks of one head
  int64_t stride;          // padded D
  Element* queries;        // [group][blocks][kRows][stride]
  float *out, *sum, *top;  // OnlineSoftmax of every row
  Element *keys, *values;  // one block
  float* scores;           // [kRows][kKeys]
  Element* probabilities;  // [kRows][kKeys]
  int64_t bytes;
};

template <class Engine>
int64_t forward_scratch_bytes(const AttentionArguments& a, int64_t queries) {
  return ForwardScratch<Engine>(a, queries, nullptr).bytes;
}

template <class Engine>
void start_queries(const AttentionArguments& a, const AttentionForwardTask& task, const ForwardScratch<Engine>& scratch) {
  using Source = typename Engine::Source;
  for (int64_t h = 0; h < a.group; ++h) {
    for (int64_t i = 0; i < scratch.blocks; ++i) {
      const int64_t query = task.begin + i * kAttentionQueryBlock, block = h * scratch.blocks + i;
      const int64_t rows = smaller(kAttentionQueryBlock, task.end - query);
      const Source* from = head_rows<const Source>(a.q, task.batch, task.key_head * a.group + h, a.width, query);
      Engine::pack_queries_for_scores(from, a.q.row_stride, rows, a.width,
                                      scratch.queries + block * kAttentionQueryBlock * scratch.stride);
      const OnlineSoftmax state = scratch.state(block);
      clear(state.out, kAttentionQueryBlock * scratch.stride);
      clear(state.sum, kAttentionQueryBlock * kLanes);
      for (int64_t r = 0; r < kAttentionQueryBlock; ++r) state.top[r] = kMinusInfinity;
    }
  }
}

// Processes one query block with the packed block of keys that starts at `key`.
template <class Engine>
void forward_block(const AttentionArguments& a, const AttentionForwardTask& task, const ForwardScratch<Engine>& scratch,
                   int64_t h, int64_t i, int64_t key, int64_t columns) {
  constexpr int64_t kKeys = Engine::kForwardKeys;
  const int64_t query = task.begin + i * kAttentionQueryBlock, index = h * scratch.blocks + i;
  const ScoreBlock block = score_block(a, query, smaller(kAttentionQueryBlock, task.end - query), key, columns);
  const HiddenColumns hidden = hidden_columns(a, task.batch, query, key);
  if (block.visible(block.rows - 1) == 0 || hidden.of(0) >= columns) return;

  Engine::template scores<kKeys>(block, a.width, scratch.queries + index * kAttentionQueryBlock * scratch.stride, scratch.keys,
                                 scratch.scores);
  hide(block, hidden, scratch.scores, kKeys);
  const OnlineSoftmax state = scratch.state(index);
  const BlockDropout dropout{.arguments = a.dropout,
                             .head = task.key_head * a.group + h,
                             .first_row = task.batch * a.queries + query,
                             .first_key = a.first_key + key};
  const auto rows = a.dropout.active ? softmax_rows<Engine, true> : softmax_rows<Engine, false>;
  rows(block, a.scale, dropout, state, scratch.scores, kKeys, scratch.probabilities);
  Engine::template add_weighted_sums<kKeys>(block, a.width, scratch.probabilities, scratch.values, state.out);
}

template <class Engine>
void finish_queries(const AttentionArguments& a, const AttentionForwardTask& task, const ForwardScratch<Engine>& scratch) {
  using Source = typename Engine::Source;
  for (int64_t h = 0; h < a.group; ++h) {
    const int64_t head = task.key_head * a.group + h;
    const OnlineSoftmax state = scratch.state(h * scratch.blocks);
    for (int64_t i = task.begin; i < task.end; ++i) {
      const int64_t row = i - task.begin;
      const float sum = reduce_sum(load(state.sum + row * kLanes));
      const float factor = sum == 0 ? 0 : 1 / sum;
      unpack_row(state.out + row * scratch.stride, factor, a.width, head_rows<Source>(a.out, task.batch, head, a.width, i));
      a.lse[(task.batch * a.heads + head) * a.queries + i] = sum == 0 ? kMinusInfinity : state.top[row] + __builtin_logf(sum);
    }
  }
}

template <class Engine>
void attention_forward(const AttentionArguments& a, const AttentionForwardTask& task, void* memory) {
  using Source = typename Engine::Source;
  constexpr int64_t kKeys = Engine::kForwardKeys;
  [[maybe_unused]] const typename Engine::Session session;
  const ForwardScratch<Engine> scratch(a, task.end - task.begin, memory);
  start_queries<Engine>(a, task, scratch);
  const int64_t key_end = visible_keys(a, task.end - 1);
  for (int64_t key = 0; key < key_end; key += kKeys) {
    const int64_t columns = smaller(kKeys, key_end - key);
    const Source* k = head_rows<const Source>(a.k, task.batch, task.key_head, a.width, key);
    const Source* v = head_rows<const Source>(a.v, task.batch, task.key_head, a.width, key);
    Engine::template pack_keys_for_scores<kKeys>(k, a.k.row_stride, columns, a.width, scratch.keys);
    Engine::pack_keys_for_sums(v, a.v.row_stride, columns, a.width, scratch.values);
    for (int64_t h = 0; h < a.group; ++h)
      for (int64_t i = 0; i < scratch.blocks; ++i) forward_block<Engine>(a, task, scratch, h, i, key, columns);
  }
  finish_queries<Engine>(a, task, scratch);
}

}  // namespace trireme::cpu::TRIREME_ISA::attention
