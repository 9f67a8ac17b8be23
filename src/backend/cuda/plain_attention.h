// Attention by simple kernels, for cases that cuDNN does not support: f32, fewer queries than keys (generation), odd widths.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/ops.h"

namespace trireme::cuda {

void plain_attention_forward(const AttentionForward& op, cudaStream_t stream);
void plain_attention_backward(const AttentionBackward& op, cudaStream_t stream);

}  // namespace trireme::cuda
