// The FP8 ops on host memory, as their formulas stand in ops.h.
#pragma once

#include "backend/ops.h"

namespace trireme {

void quantise_on_host(const Quantise& op);
void quantise_norm_on_host(const QuantiseNorm& op);
void update_scales_on_host(const UpdateScales& op);

// The FP8 copies of an operand that an op has written, if there are any.
inline void fill_copies_on_host(const Operand& written) {
  if (written.fp8) quantise_on_host({.x = written});
}

}  // namespace trireme
