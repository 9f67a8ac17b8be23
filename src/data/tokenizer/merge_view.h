// The part of a vocabulary that the loop over short words uses: plain pointers, so that it can be compiled once per instruction
// set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/tokenizer/pair_table.h"

namespace trireme {

// The merge of two adjacent bytes.
struct BytePair {
  uint32_t rank = PairView::kNoRank;  // kNoRank also if the merged token could merge again at a lower rank
  int32_t first = kNoToken;           // token of the first byte alone
  // The lowest rank of a merge of the second byte alone with a preceding token that ends with the first; and of the first byte
  // alone with a following token that starts with the second.
  uint32_t lowest_before = PairView::kNoRank, lowest_after = PairView::kNoRank;

  static constexpr size_t kCount = 1 << 16;
  // Returns the index of the pair of these two bytes, with a single load.
  static size_t place_of(const void* bytes) {
    uint16_t both = 0;
    __builtin_memcpy(&both, bytes, sizeof both);
    return both;
  }
};

struct MergeView {
  PairView pairs;
  const int32_t* merged;       // [rank] the merged token; null: equal to the rank
  const BytePair* byte_pairs;  // [BytePair::place_of]
  const int32_t* byte_tokens;  // [byte]
};

}  // namespace trireme
