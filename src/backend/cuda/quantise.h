// FP8 copies: values, transposed values, largest value and sums of columns in one pass over what they are made from. Each of
// these takes what the values of an operand follow from, so that they need not be written first.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/ops.h"

namespace trireme::cuda {

void quantise(const Operand& x, cudaStream_t stream);                                                     // x itself
void quantise_activated(Activation activation, Tensor pre, const Operand& out, cudaStream_t stream);      // activation(pre)
void quantise_activation_grad(Activation activation, Tensor pre, const Operand& d, cudaStream_t stream);  // d * activation'(pre)
// The same, and in the same pass the transposed copy of x = activation(pre): of an x that needs nothing else and has its scale.
void quantise_activation_grad(Activation activation, Tensor pre, const Operand& d, const Operand& x, cudaStream_t stream);
bool can_remake(const Operand& x);                                              // whether x is such a one
void quantise_swiglu(Tensor gate_up, const Operand& out, cudaStream_t stream);  // swish(gate) * up

}  // namespace trireme::cuda
