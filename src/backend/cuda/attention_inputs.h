// What cuDNN's attention reads beside the heads, in device memory: a seed and an offset, from which it draws dropout, and a bias
// that keeps documents apart.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/ops.h"

namespace trireme::cuda {

// seeds[0] = seed and site of the dropout, seeds[1] = the first row's key, so that every layer and micro-batch has draws of its
// own and a repeated step repeats them.
void write_attention_seed(const Dropout& dropout, int64_t* seeds, cudaStream_t stream);

// bias[i,j], added to the scores of [B*T] queries, whose sequences start at key 0: 0 for j >= document_starts[i], else so low
// that the probability is 0. Finite, because a block of keys none of which is seen must not make NaN.
// bias: [B*T,T] bf16; T is a multiple of 8.
void write_document_bias(const Tensor& document_starts, int64_t T, void* bias, cudaStream_t stream);

}  // namespace trireme::cuda
