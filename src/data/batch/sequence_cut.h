// How sequences are cut over context-parallel ranks: into 2c parts, of which rank i of c holds parts i and 2c-1-i, so that all
// ranks have the same work under the causal mask. A rank alone holds the whole as one part.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace trireme {

struct SequenceCut {
  int64_t rank = 0;   // of the context-parallel group
  int64_t ranks = 1;  // in the context-parallel group

  int64_t parts_held() const { return ranks > 1 ? 2 : 1; }
  // The number, among all parts of a sequence, of the first (0) or second (1) one that this rank holds.
  int64_t part_number(int64_t held) const { return held == 0 ? rank : 2 * ranks - 1 - rank; }
  int64_t part_length(int64_t sequence) const { return div_exact(sequence, parts_held() * ranks); }
};

}  // namespace trireme
