// Memory of a micro-batch on a pipeline stage, by how long it must live: which slot it has in each ring, or how many slots a ring
// has. Every chunk of a stage has rings of its own, but for the batch.
#pragma once

#include <cstdint>

namespace trireme {

struct Slots {
  int64_t batch = 0;      // its tokens: until no chunk of the stage needs them
  int64_t saved = 0;      // what only the gradients of activations need: until backward or backward_input
  int64_t inputs = 0;     // inputs of linear layers: until backward or backward_weight
  int64_t gradients = 0;  // gradients of their outputs: from backward_input to backward_weight
  bool operator==(const Slots&) const = default;
};

}  // namespace trireme
