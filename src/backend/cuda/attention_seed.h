// cuDNN draws the dropout of attention itself, from a seed and an offset in device memory.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/ops.h"

namespace trireme::cuda {

// seeds[0] = seed and site of the dropout, seeds[1] = the first row's key, so that every layer and micro-batch has draws of its
// own and a repeated step repeats them.
void write_attention_seed(const Dropout& dropout, int64_t* seeds, cudaStream_t stream);

}  // namespace trireme::cuda
