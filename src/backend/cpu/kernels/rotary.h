// The rotary kernel: see Rotary in ops.h.
#pragma once

#include "backend/cpu/kernels/pointwise_arguments.h"

namespace trireme::cpu {

constexpr int64_t kMostRotaryPairs = 128;

struct RotaryArguments {
  void* heads = nullptr;  // first head of the first row, f32 or bf16
  int64_t row_stride = 0;
  int64_t count = 0;  // heads
  int64_t width = 0;  // D
  int64_t pairs = 0;  // dims / 2
  bool backward = false;
  const int32_t* positions = nullptr;                // [N]
  double turns_per_position[kMostRotaryPairs] = {};  // base^(-2i/dims) / (2 pi)
};

struct RotaryKernels {
  PerDType<void (*)(const RotaryArguments&, int64_t begin, int64_t end)> rotate;  // rows [begin, end)
};
TRIREME_DECLARE_KERNELS(RotaryKernels, rotary_kernels)

}  // namespace trireme::cpu
