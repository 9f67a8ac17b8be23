// Identifies work that a backend may record once and replay (Backend::repeat).
#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "tensor/operand.h"

namespace trireme {

enum class WorkKind : uint8_t { clear_gradients, forward, forward_only, backward, backward_input, backward_weight };

// Work with equal keys enqueues the same ops on the same operands.
struct WorkKey {
  WorkKind kind = WorkKind::clear_gradients;
  bool is_first_of_step = false;  // the first micro-batch writes gradients, the others add to them
  Fp8Scaling scaling = Fp8Scaling::delayed;
  int64_t chunk = 0;
  std::array<int64_t, 4> slots{};  // per ring, the memory it uses (model/slots.h)

  auto operator<=>(const WorkKey&) const = default;  // NOLINT(modernize-use-nullptr): false positive in generated code
};

}  // namespace trireme
