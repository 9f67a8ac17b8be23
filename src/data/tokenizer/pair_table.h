// Which two neighbouring tokens merge, in which order, and into what. Most pairs that are asked for do not merge: a small filter,
// one bit at a place that the pair's hash says, tells that of nineteen in twenty without a look at the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/large_array.h"

namespace trireme {

constexpr int32_t kNoToken = (1 << 20) - 1;  // beside it nothing merges

struct Merge {
  int32_t left, right, merged;
};

// The same value, of which the compiler knows nothing: it cannot make branches of the conditions it was computed from. What words
// do next is beyond prediction, and a branch that is foretold wrongly costs more than all of the arithmetic here.
[[gnu::always_inline]] inline uint64_t without_branches(uint64_t value) {
  asm("" : "+r"(value));
  return value;
}

// What the kernels see of a PairTable.
struct PairView {
  static constexpr uint32_t kNoRank = 0xFFFFFF;  // greater than every rank
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  const uint64_t* slots;  // left: 20 bits, right: 20 bits, rank: 24 bits; the first is always empty
  const uint8_t* filter;
  uint64_t last_slot;     // slots are a power of two and one more
  uint32_t shift;         // of a hash, to the number of a slot less one
  uint32_t filter_shift;  // to the number of a byte in the filter

  static constexpr uint32_t kLeftFactor = 0x9E3779B1U, kRightFactor = 0x85EBCA77U;

  static uint64_t key(uint32_t left, uint32_t right) { return uint64_t{left} << 20 | right; }
  static uint32_t hash(uint32_t left, uint32_t right) { return left * kLeftFactor + right * kRightFactor; }
  uint32_t filter_bit(uint32_t hash) const { return hash >> (shift - 3) & 7; }

  // Without a branch but for pairs that are not at their first slot. What the filter leaves out is looked for in the empty slot.
  [[gnu::always_inline]] uint32_t rank(uint32_t left, uint32_t right) const {
    const uint64_t wanted = key(left, right);
    const uint32_t hashed = hash(left, right);
    const uint64_t maybe = filter[hashed >> filter_shift] >> filter_bit(hashed) & 1;
    uint64_t slot = (uint64_t{hashed >> shift} + 1) & (0 - maybe);
    const auto is_of_another = [&] {
      return without_branches(static_cast<uint64_t>(slots[slot] >> 24 != wanted) &
                              static_cast<uint64_t>(slots[slot] != kEmpty)) != 0;
    };
    while (is_of_another()) [[unlikely]] slot = slot == last_slot ? 1 : slot + 1;
    return static_cast<uint32_t>(slots[slot]) & kNoRank;  // of an empty slot: kNoRank
  }
};

// Where every merge makes a token of a higher number than the one before, as in most vocabularies, that number is its rank: then
// the token of a rank needs no look into a table.
class PairTable {
 public:
  static constexpr int64_t kMaxTokens = kNoToken;
  static constexpr int64_t kMaxMerges = PairView::kNoRank - 1;

  // Merges in the order of their ranks. Of a pair that is there twice the first counts.
  explicit PairTable(std::span<const Merge> merges);

  const PairView& view() const { return view_; }
  uint32_t rank(uint32_t left, uint32_t right) const { return view_.rank(left, right); }
  const int32_t* merged_tokens() const { return merged_.empty() ? nullptr : merged_.data(); }  // null: the ranks are they
  int32_t merged(uint32_t rank) const { return merged_.empty() ? static_cast<int32_t>(rank) : merged_[rank]; }
  // The rank of the merge that stands at `place` in the list.
  uint32_t rank_at(size_t place, const Merge& merge) const {
    return static_cast<uint32_t>(merged_.empty() ? static_cast<size_t>(merge.merged) : place);
  }

 private:
  void insert(const Merge& merge, uint32_t rank);

  LargeArray<uint64_t> slots_;
  std::vector<int32_t> merged_;  // [rank]; empty: the rank itself
  std::vector<uint8_t> filter_;
  PairView view_{};
};

}  // namespace trireme
