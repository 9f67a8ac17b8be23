// Which two adjacent tokens merge, in which order, and into what. Most pairs that are looked up do not merge. A small filter with
// one bit per hash value rejects about 95% of them without a table access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/large_array.h"

namespace trireme {

constexpr int32_t kNoToken = (1 << 20) - 1;  // merges with nothing

struct Merge {
  int32_t left, right, merged;
};

// Returns the same value but hides its origin from the compiler, which then cannot turn the conditions into branches. Merges are
// unpredictable, and a mispredicted branch costs more than all of the arithmetic here.
[[gnu::always_inline]] inline uint64_t without_branches(uint64_t value) {
  asm("" : "+r"(value));
  return value;
}

// The part of a PairTable that the kernels use.
struct PairView {
  static constexpr uint32_t kNoRank = 0xFFFFFF;  // greater than every rank
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  const uint64_t* slots;  // left: 20 bits, right: 20 bits, rank: 24 bits; slot 0 is always empty
  const uint8_t* filter;
  uint64_t last_slot;     // there are 2^n + 1 slots
  uint32_t shift;         // hash >> shift is the slot index minus one
  uint32_t filter_shift;  // hash >> filter_shift is the byte index in the filter

  static constexpr uint32_t kLeftFactor = 0x9E3779B1U, kRightFactor = 0x85EBCA77U;

  static uint64_t key(uint32_t left, uint32_t right) { return uint64_t{left} << 20 | right; }
  static uint32_t hash(uint32_t left, uint32_t right) { return left * kLeftFactor + right * kRightFactor; }
  uint32_t filter_bit(uint32_t hash) const { return hash >> (shift - 3) & 7; }

  // Branch-free except for pairs outside their first slot. Pairs that the filter rejects use the empty slot 0.
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
    return static_cast<uint32_t>(slots[slot]) & kNoRank;  // kNoRank for an empty slot
  }
};

// In most vocabularies each merge makes a token of a higher id than the previous merge. Then that id is its rank, and the token
// of a rank needs no table.
class PairTable {
 public:
  static constexpr int64_t kMaxTokens = kNoToken;
  static constexpr int64_t kMaxMerges = PairView::kNoRank - 1;

  // Merges must be in rank order. The first of repeated pairs counts.
  explicit PairTable(std::span<const Merge> merges);

  const PairView& view() const { return view_; }
  uint32_t rank(uint32_t left, uint32_t right) const { return view_.rank(left, right); }
  const int32_t* merged_tokens() const { return merged_.empty() ? nullptr : merged_.data(); }  // null: equal to the ranks
  int32_t merged(uint32_t rank) const { return merged_.empty() ? static_cast<int32_t>(rank) : merged_[rank]; }
  // Returns the rank of the merge at `place` in the list.
  uint32_t rank_at(size_t place, const Merge& merge) const {
    return static_cast<uint32_t>(merged_.empty() ? static_cast<size_t>(merge.merged) : place);
  }

 private:
  void insert(const Merge& merge, uint32_t rank);

  LargeArray<uint64_t> slots_;
  std::vector<int32_t> merged_;  // [rank]; empty: equal to the rank
  std::vector<uint8_t> filter_;
  PairView view_{};
};

}  // namespace trireme
