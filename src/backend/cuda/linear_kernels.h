// The parts of a linear layer that are not GEMMs.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/ops.h"

namespace trireme::cuda {

// d *= activation'(pre).    Both act, of the same shape.
void activation_backward(Activation activation, Tensor pre, Tensor d, cudaStream_t stream);

// sums[c] += sum over p of partial[p,c].    partial [P,C], sums [C] f32; in a fixed order.
void add_partial_sums(Tensor partial, Tensor sums, cudaStream_t stream);

// sums[c] += sum over n of values[n,c].    values [N,C] act; sums [C] f32. In two stages of fixed order; the first writes partial
// sums to scratch.
int64_t column_sums_scratch(const Tensor& values);
void add_column_sums(Tensor values, Tensor sums, void* scratch, cudaStream_t stream);

}  // namespace trireme::cuda
