// The loss where no rank has another part of the vocabulary: statistics, losses and gradient of a row in one kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/ops.h"

namespace trireme::cuda {

// Whether a row fits the shared memory of this device.
bool can_fuse_cross_entropy(const Tensor& logits);

// The same as both ops one after the other, with the logits read once.
void cross_entropy_fused(cudaStream_t stream, const CrossEntropyStats& stats, const CrossEntropyGrad& grad);

}  // namespace trireme::cuda
