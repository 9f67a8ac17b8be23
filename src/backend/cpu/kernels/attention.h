// The attention kernels, as attention.cpp of the backend calls them: see AttentionForward and AttentionBackward in ops.h.
// Included on both sides, so it may not include library headers (see simd.h).
#pragma once

#include "backend/cpu/kernels/pointwise_arguments.h"

namespace trireme::cpu {

// The heads of a view of packed heads [B,T,*,D], f32 or bf16. Strides count elements; head h of the view is h * D further on.
struct HeadsArgument {
  void* data = nullptr;
  int64_t batch_stride = 0;
  int64_t row_stride = 0;
};

struct AttentionArguments {
  int64_t queries = 0;     // Tq
  int64_t keys = 0;        // Tk
  int64_t key_length = 0;  // how many of the keys are there
  int64_t first_key = 0;   // what the draws of key 0 are keyed by
  int64_t heads = 0;       // H
  int64_t group = 1;       // H/G query heads share a key/value head
  int64_t width = 0;       // D
  bool causal = true;
  float scale = 1;
  DropoutArguments dropout;
  const int32_t* document_starts = nullptr;  // [B][Tq], or null
  HeadsArgument q, k, v, out;
  float* lse = nullptr;  // [B,H,Tq]
};

// `out` and `lse` of forward are what forward gave.
struct AttentionBackwardArguments {
  AttentionArguments forward;
  HeadsArgument d_out, d_q, d_k, d_v;
};

// Queries begin, ..., end - 1 of the query heads that share one key/value head.
struct AttentionForwardTask {
  int64_t batch = 0;
  int64_t key_head = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// A share of the work of one key/value head. Its units are the chunks of queries of the query heads that share it; unit u belongs
// to part u % parts.
struct AttentionBackwardTask {
  int64_t batch = 0;
  int64_t key_head = 0;
  int64_t part = 0;
  int64_t parts = 1;
};

// Memory is 64-byte aligned; `scratch` belongs to the calling thread.
struct AttentionKernels {
  int64_t (*forward_scratch_bytes)(const AttentionArguments&, int64_t queries);  // for a task of so many queries
  void (*forward)(const AttentionArguments&, const AttentionForwardTask&, void* scratch);

  // backward writes d_q of its queries, and its share of d_k and d_v to key_gradients. store_key_gradients sums the shares of all
  // parts, which lie one after the other, in their order, and writes d_k and d_v.
  int64_t (*backward_scratch_bytes)(const AttentionArguments&);
  int64_t (*key_gradient_bytes)(const AttentionArguments&);
  void (*backward)(const AttentionBackwardArguments&, const AttentionBackwardTask&, void* scratch, float* key_gradients);
  void (*store_key_gradients)(const AttentionBackwardArguments&, int64_t batch, int64_t key_head, int64_t parts,
                              float* key_gradients);
};

TRIREME_DECLARE_KERNELS(AttentionKernels, attention_f32)
TRIREME_DECLARE_KERNELS(AttentionKernels, attention_bf16)
namespace amx {
extern const AttentionKernels attention_bf16;
}
namespace amx_emulated {
extern const AttentionKernels attention_bf16;
}

// Query blocks are this long; forward tasks are cut at multiples of it.
constexpr int64_t kAttentionQueryBlock = 64;

// Queries of one unit of backward: with their output gradients and gradients they stay in the second-level cache while the keys
// pass by.
constexpr int64_t kAttentionBackwardChunk = 512;

}  // namespace trireme::cpu
