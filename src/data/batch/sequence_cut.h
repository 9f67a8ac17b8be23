// How sequences are split over context-parallel ranks. Each sequence has 2c parts; rank i of c holds parts i and 2c-1-i, so all
// ranks have the same work under the causal mask. A single rank holds the whole sequence as one part.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace trireme {

struct SequenceCut {
  int64_t rank = 0;   // in the context-parallel group
  int64_t ranks = 1;  // size of the context-parallel group

  int64_t parts_held() const { return ranks > 1 ? 2 : 1; }
  // Returns the index, among all parts of a sequence, of the first (held = 0) or second (held = 1) part of this rank.
  int64_t part_number(int64_t held) const { return held == 0 ? rank : 2 * ranks - 1 - rank; }
  int64_t part_length(int64_t sequence) const { return div_exact(sequence, parts_held() * ranks); }
};

}  // namespace trireme
