// Further inputs of cuDNN's attention in device memory: a seed and an offset, from which it draws dropout, and a bias that
// separates documents.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/ops.h"

namespace trireme::cuda {

// seeds[0] = seed and site of the dropout, seeds[1] = the key of the first row. So every layer and micro-batch has its own draws,
// and a repeated step repeats them.
void write_attention_seed(const Dropout& dropout, int64_t* seeds, cudaStream_t stream);

// bias[i,j] is added to the scores of the [B*T] queries; each sequence starts at key 0. It is 0 for j >= document_starts[i], else
// so low that the probability is 0. It is finite, because a block of keys of which none is visible must not give NaN.
// bias: [B*T,T] bf16; T is a multiple of 8.
void write_document_bias(const Tensor& document_starts, int64_t T, void* bias, cudaStream_t stream);

}  // namespace trireme::cuda
