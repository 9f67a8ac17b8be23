// Makes FP8 copies: values, transposed values, amax and column sums in one pass over the source. The functions compute the
// operand from its inputs, so it need not be written in bf16 first.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/ops.h"

namespace trireme::cuda {

void quantize(const Operand& x, cudaStream_t stream);                                                 // of x itself
void quantize_activated(Activation activation, Tensor pre, const Operand& out, cudaStream_t stream);  // of activation(pre)
// Of d * activation'(pre).
void quantize_activation_grad(Activation activation, Tensor pre, const Operand& d, cudaStream_t stream);
// The same, and in the same pass the transposed FP8 copy of x = activation(pre). can_remake(x) must be true.
void quantize_activation_grad(Activation activation, Tensor pre, const Operand& d, const Operand& x, cudaStream_t stream);
bool can_remake(const Operand& x);  // whether x needs only the transposed copy and has its scale
void quantize_swiglu(Tensor gate_up, const Operand& out, cudaStream_t stream);  // of swish(gate) * up

}  // namespace trireme::cuda
