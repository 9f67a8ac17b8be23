// How many calls a rank has begun in a group. All ranks of a group make the same calls in the same order, so the counts of two
// ranks can be compared.
#pragma once

#include <cstdint>

namespace trireme {

// Calls that a rank has begun on one stream of one group.
struct CallCount {
  int group = 0, stream = 0;
  uint64_t count = 0;
};

}  // namespace trireme
