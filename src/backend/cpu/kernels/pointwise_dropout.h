// Dropout along a row, for loops that walk it 16 elements at a time.
#pragma once

#include "backend/cpu/kernels/philox_simd.h"
#include "backend/cpu/kernels/pointwise_arguments.h"

namespace trireme::cpu::TRIREME_ISA {

class RowDropout {
 public:
  TRIREME_INLINE RowDropout(const DropoutArguments& dropout, int64_t n) : active_(dropout.active) {
    if (active_) row_ = {dropout.seed, dropout.site, dropout.row_keys[n], dropout.threshold, dropout.scale};
  }

  // dropout(v), where v are columns c .. c + 15. Call it for columns in order, starting at a multiple of kDropoutBatch.
  TRIREME_INLINE f32x16 apply(f32x16 v, int64_t c) {
    if (!active_) return v;
    const int64_t part = c % kDropoutBatch / kLanes;
    if (part == 0) factors_ = dropout_factors(row_, c);
    return v * factors_.of[part];
  }

 private:
  bool active_;
  DropoutRow row_;
  DropoutFactors factors_;  // of the batch that holds the current column
};

}  // namespace trireme::cpu::TRIREME_ISA
