// The interface between the attention kernels and attention.cpp of the backend; see AttentionForward and AttentionBackward in
// ops.h. Included on both sides, so it may not include library headers (see simd.h).
#pragma once

#include "backend/cpu/kernels/pointwise_arguments.h"

namespace trireme::cpu {

// The heads of a view of packed heads [B,T,*,D], f32, bf16 or f16. Strides are in elements; head h of the view is at offset h *
// D.
struct HeadsArgument {
  void* data = nullptr;
  int64_t batch_stride = 0;
  int64_t row_stride = 0;
};

struct AttentionArguments {
  int64_t queries = 0;     // Tq
  int64_t keys = 0;        // Tk
  int64_t key_length = 0;  // how many of the keys are valid
  int64_t first_key = 0;   // the position that keys the dropout draws of key 0
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

// `out` and `lse` of forward are the results of forward.
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

// One part of the work of one key/value head. The work is divided into units: the chunks of queries of the query heads that share
// it. Unit u belongs to part u % parts.
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

  // backward writes d_q of its queries, and its part of d_k and d_v to key_gradients. store_key_gradients sums all parts, which
  // are contiguous, in order, and writes d_k and d_v.
  int64_t (*backward_scratch_bytes)(const AttentionArguments&);
  int64_t (*key_gradient_bytes)(const AttentionArguments&);
  void (*backward)(const AttentionBackwardArguments&, const AttentionBackwardTask&, void* scratch, float* key_gradients);
  void (*store_key_gradients)(const AttentionBackwardArguments&, int64_t batch, int64_t key_head, int64_t parts,
                              float* key_gradients);
};

TRIREME_DECLARE_KERNELS(AttentionKernels, attention_f32)
TRIREME_DECLARE_KERNELS(AttentionKernels, attention_bf16)
TRIREME_DECLARE_KERNELS(AttentionKernels, attention_f16)
namespace amx {
extern const AttentionKernels attention_bf16;
}
namespace amx_emulated {
extern const AttentionKernels attention_bf16;
}

// The length of query blocks; forward tasks are split at multiples of it.
constexpr int64_t kAttentionQueryBlock = 64;

// Queries per unit of backward. They, their output gradients and their gradients stay in L2 while the keys stream through.
constexpr int64_t kAttentionBackwardChunk = 512;

}  // namespace trireme::cpu
