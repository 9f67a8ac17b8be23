// Kernels of the optimizer, over pieces of flat buffers.
#pragma once

#include "backend/cpu/kernels/pointwise_arguments.h"

namespace trireme::cpu {

// The factors of one AdamW update, computed once per call from the step scalars.
struct AdamWFactors {
  float clip = 1;
  float beta1 = 0, one_minus_beta1 = 0;
  float beta2 = 0, one_minus_beta2 = 0;
  float m_correction = 1;       // 1 / (1 - beta1^updates)
  float root_v_correction = 1;  // 1 / sqrt(1 - beta2^updates)
  float epsilon = 0;
  float learning_rate = 0;
};

struct AdamWPiece {
  int64_t count = 0;
  float weight_decay = 0;
  const float* grads = nullptr;
  float* master = nullptr;
  void* m = nullptr;
  void* v = nullptr;
  void* weights = nullptr;  // may be master
};

struct OptimizerKernels {
  double (*sum_of_squares)(const float* values, int64_t count);
  // By whether m and v are bf16 instead of f32, then by the dtype of the weights.
  PerDType<void (*)(const AdamWFactors&, const AdamWPiece&)> adamw[2][2];
};
TRIREME_DECLARE_KERNELS(OptimizerKernels, optimizer_kernels)

}  // namespace trireme::cpu
