// The FP8 ops on host memory; ops.h has their formulas.
#pragma once

#include "backend/ops.h"

namespace trireme {

void quantize_on_host(const Quantize& op);
void quantize_norm_on_host(const QuantizeNorm& op);
void update_scales_on_host(const UpdateScales& op);

// Fills the FP8 copies of an operand that an op has written, if it has any.
inline void fill_copies_on_host(const Operand& written) {
  if (written.fp8) quantize_on_host({.x = written});
}

}  // namespace trireme
