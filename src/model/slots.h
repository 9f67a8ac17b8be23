// The slots of a micro-batch on a pipeline stage, one in each ring of buffers; also the number of slots of each ring. Rings
// differ in how long a slot is held. The chunks of a stage share the rings, so a stage has as many slots as it holds at once.
#pragma once

#include <cstdint>

namespace trireme {

struct Slots {
  int64_t batch = 0;      // tokens: held until no chunk of the stage reads them
  int64_t saved = 0;      // activations that dgrad reads: until backward or backward_input
  int64_t inputs = 0;     // inputs of linear layers, which wgrad reads: until backward or backward_weight
  int64_t gradients = 0;  // output gradients, which wgrad reads: from backward_input to backward_weight
  bool operator==(const Slots&) const = default;
};

}  // namespace trireme
