// How far a rank has come in a group: what it has in common with the others, since all make the same calls in the same order.
#pragma once

#include <cstdint>

namespace trireme {

// Calls that a rank has begun on one stream of one group.
struct CallCount {
  int group = 0, stream = 0;
  uint64_t count = 0;
};

}  // namespace trireme
