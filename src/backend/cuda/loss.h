// The loss for a vocabulary that is not split over ranks: statistics, losses and gradient of a row in one kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/ops.h"

namespace trireme::cuda {

// Whether a row fits into the shared memory of this device.
bool can_fuse_cross_entropy(const Tensor& logits);

// Does both ops and reads the logits once.
void cross_entropy_fused(cudaStream_t stream, const CrossEntropyStats& stats, const CrossEntropyGrad& grad);

}  // namespace trireme::cuda
