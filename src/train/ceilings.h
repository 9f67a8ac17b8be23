// What this machine can do at most, measured with the backend's own ops: a large product and a large copy.
#pragma once

#include "backend/op_trace.h"

namespace trireme {

enum class Products : uint8_t { plain, fp8 };

// Takes memory while it lasts; what does not fit is not measured.
Ceilings measure_ceilings(Backend& backend, DType dtype, Products products);

}  // namespace trireme
