// Kernels of the cross entropy, one row of logits at a time.
#pragma once

#include "backend/cpu/kernels/pointwise_arguments.h"

namespace trireme::cpu {

struct LogitsRow {
  int64_t width = 0;       // V, with padding
  int64_t vocabulary = 0;  // columns that are not padding
  void* logits = nullptr;
};

struct LossKernels {
  PerDType<void (*)(const LogitsRow&, float* row_max, float* row_sum)> stats;
  // logits = (exp(logit - row_max) / row_sum - [c == target]) * scale, 0 in the padding; target -1 matches no column.
  PerDType<void (*)(const LogitsRow&, int64_t target, float row_max, float row_sum, float scale)> grad;
};
TRIREME_DECLARE_KERNELS(LossKernels, loss_kernels)

}  // namespace trireme::cpu
