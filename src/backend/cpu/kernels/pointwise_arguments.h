// What the pointwise kernels share with the files that call them: how a table of kernels is declared for every instruction set,
// and the description of a dropout. Included on both sides, so it may not include library headers (see simd.h).
#pragma once

#include <cstdint>

// A table of kernels has one instance per instruction set, each in its namespace. They are defined in kernels/*.cpp, which is
// compiled once for each.
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

// The same kernel for either dtype of activations.
template <class Kernel>
struct PerDType {
  Kernel f32;
  Kernel bf16;
};

// Dropout of ops.h, ready for the kernels: element (n, c) is kept if its 32 random bits are >= threshold.
struct DropoutArguments {
  bool active = false;
  uint32_t site = 0;
  uint32_t threshold = 0;
  float scale = 1;  // of kept elements
  uint64_t seed = 0;
  const int64_t* row_keys = nullptr;  // [N]
};

}  // namespace trireme::cpu
