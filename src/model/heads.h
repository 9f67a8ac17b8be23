// Packed heads and their parts.
#pragma once

#include <cmath>

#include "backend/ops.h"
#include "model/dims.h"

namespace trireme {

struct PackedHeads {
  HeadsView q, k, v, qk;
};

inline PackedHeads unpack(const Dims& d, const Operand& qkv) {
  return {.q = {qkv, 0, d.H}, .k = {qkv, d.H, d.G}, .v = {qkv, d.H + d.G, d.G}, .qk = {qkv, 0, d.H + d.G}};
}

inline float score_scale(const Dims& d) { return static_cast<float>(1 / std::sqrt(static_cast<double>(d.D))); }

}  // namespace trireme
