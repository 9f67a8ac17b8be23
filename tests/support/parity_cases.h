// What the lists of parity cases share. Each list is a function check(Parity&, Case<Op>), one per op.
#pragma once

#include "support/parity.h"

namespace trireme {

template <class Op>
struct Case {};

// An op without cases is found when its test runs.
template <class Op>
void check(Parity&, Case<Op>) {
  FAIL() << Op::kName << " has no parity case";
}

inline constexpr DType kActDTypes[] = {DType::f32, DType::bf16, DType::f16};
inline constexpr float kProbabilities[] = {0, 0.3f};

// Rows and widths that are not multiples of anything, one of a single element, and one with several tasks.
struct Matrix {
  int64_t N, C;
};
inline constexpr Matrix kMatrices[] = {{1, 5}, {3, 1}, {3, 16}, {17, 33}, {130, 128}, {5, 768}};

inline std::string describe(int64_t N, int64_t C, float probability, const std::string& more = "") {
  return fmt::format("N={} C={} dropout={} {}", N, C, probability, more);
}

inline Dropout dropout(HostTensors& tensors, int64_t N, float probability, uint32_t site = 3) {
  if (probability == 0) return {};
  return {.probability = probability, .seed = 0x123456789abcdef, .site = site, .row_keys = tensors.row_keys(N)};
}

// What dropout multiplies by.
inline double dropout_scale(float probability) { return 1 / (1 - static_cast<double>(probability)); }

}  // namespace trireme
