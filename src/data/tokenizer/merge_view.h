// What the loop that merges a short word sees of a vocabulary: plain pointers, so that it can be compiled once per instruction
// set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/tokenizer/pair_table.h"

namespace trireme {

// What two bytes do that stand beside each other.
struct BytePair {
  uint32_t rank = PairView::kNoRank;  // none also where the merged token could merge further sooner than it came to be
  int32_t first = kNoToken;           // of the first byte alone
  // The lowest rank of a merge of the second byte, alone, with a token before it that ends with the first; and of the first
  // byte, alone, with a token after it that begins with the second.
  uint32_t lowest_before = PairView::kNoRank, lowest_after = PairView::kNoRank;

  static constexpr size_t kCount = 1 << 16;
  // Where a table has the pair of these two bytes: one load tells it.
  static size_t place_of(const void* bytes) {
    uint16_t both = 0;
    __builtin_memcpy(&both, bytes, sizeof both);
    return both;
  }
};

struct MergeView {
  PairView pairs;
  const int32_t* merged;       // [rank] the token that a merge makes; null: the rank itself
  const BytePair* byte_pairs;  // [BytePair::place_of]
  const int32_t* byte_tokens;  // [byte]
};

}  // namespace trireme
