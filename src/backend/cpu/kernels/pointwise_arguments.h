// Shared by the pointwise kernels and the files that call them: the declaration of a kernel table per instruction set, and the
// arguments of dropout. Included on both sides, so it may not include library headers (see simd.h).
#pragma once

#include <cstdint>

// A kernel table has one instance per instruction set, each in its own namespace. The instances are defined in kernels/*.cpp,
// which are compiled once per set.
#define TRIREME_DECLARE_KERNELS(Table, name) \
  namespace baseline {                       \
  extern const Table name;                   \
  }                                          \
  namespace avx2 {                           \
  extern const Table name;                   \
  }                                          \
  namespace avx512 {                         \
  extern const Table name;                   \
  }                                          \
  namespace avx512_bf16 {                    \
  extern const Table name;                   \
  }

namespace trireme::cpu {

// One kernel for each activation dtype.
template <class Kernel>
struct PerDType {
  Kernel f32;
  Kernel bf16;
  Kernel f16;
};

// Dropout as defined in ops.h, as kernel arguments. Element (n, c) is kept if its 32 random bits are >= threshold.
struct DropoutArguments {
  bool active = false;
  uint32_t site = 0;
  uint32_t threshold = 0;
  float scale = 1;  // of kept elements
  uint64_t seed = 0;
  const int64_t* row_keys = nullptr;  // [N]
};

}  // namespace trireme::cpu
