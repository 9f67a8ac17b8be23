// The ceilings of this machine, measured with the backend's own ops: a large GEMM and a large copy.
#pragma once

#include "backend/op_trace.h"

namespace trireme {

enum class GemmPrecision : uint8_t { plain, fp8 };

// Allocates memory for the measurement; what does not fit is not measured.
Ceilings measure_ceilings(Backend& backend, DType dtype, GemmPrecision precision);

}  // namespace trireme
