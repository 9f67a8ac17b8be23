// Kernels of the residual stream: adds with dropout, norms and their gradients. See the ops of the same names in ops.h. Pointers
// to activations are f32 or bf16, as the called kernel says; null if an optional operand is absent.
#pragma once

#include "backend/cpu/kernels/pointwise_arguments.h"

namespace trireme::cpu {

struct ResidualArguments {
  int64_t width = 0;  // C
  const void* residual = nullptr;
  const void* branch = nullptr;
  const void* branch2 = nullptr;
  DropoutArguments dropout, dropout2;
  void* sum = nullptr;
};

// How the three kinds of norm differ.
struct NormArguments {
  bool centred = true;      // whether the mean is subtracted
  float weight_offset = 0;  // 1 for layernorm1p, which stores its weight minus one
};

struct NormForwardArguments {
  ResidualArguments residual;  // without branches only the residual is read
  NormArguments norm;
  float epsilon = 0;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* out = nullptr;
  float* mean = nullptr;  // null unless centred
  float* rstd = nullptr;
};

struct NormBackwardArguments {
  int64_t width = 0;  // C
  NormArguments norm;
  const void* sum = nullptr;
  const void* weight = nullptr;
  const float* mean = nullptr;  // null unless centred
  const float* rstd = nullptr;
  const void* d_out = nullptr;
  const void* d_residual = nullptr;
  DropoutArguments dropout, dropout2;
  void* d_sum = nullptr;
  void* d_branch = nullptr;
  void* d_branch2 = nullptr;
};

struct DropoutBackwardArguments {
  int64_t width = 0;  // C
  DropoutArguments dropout;
  const void* d_sum = nullptr;
  void* d_branch = nullptr;
};

// Each kernel processes rows [begin, end).
struct NormKernels {
  PerDType<void (*)(const ResidualArguments&, int64_t begin, int64_t end)> residual_add;
  PerDType<void (*)(const DropoutBackwardArguments&, int64_t begin, int64_t end)> dropout_backward;
  PerDType<void (*)(const NormForwardArguments&, int64_t begin, int64_t end)> forward;
  // d_weight, d_bias [C]: overwritten with the sums over these rows.
  PerDType<void (*)(const NormBackwardArguments&, int64_t begin, int64_t end, float* d_weight, float* d_bias)> backward;
};
TRIREME_DECLARE_KERNELS(NormKernels, norm_kernels)

}  // namespace trireme::cpu
