#include "data/tokenizer/pair_table.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/error.h"

namespace trireme {

PairTable::PairTable(std::span<const Merge> merges) {
  CHECK(static_cast<int64_t>(merges.size()) <= kMaxMerges);
  const auto bits = static_cast<uint32_t>(std::bit_width(merges.size() | 1));  // of the number of pairs, rounded up
  // At least eight slots per pair, so few pairs are outside their first slot and few searches need an unpredictable second probe.
  const uint32_t slot_bits = bits + 3, filter_bits = bits + 1;
  slots_ = LargeArray<uint64_t>((size_t{1} << slot_bits) + 1);
  std::ranges::fill(slots_.span(), PairView::kEmpty);
  filter_.resize(size_t{1} << filter_bits);
  if (!std::ranges::is_sorted(merges, std::less_equal<>(), &Merge::merged))
    for (const Merge& merge : merges) merged_.push_back(merge.merged);
  view_ = {.slots = slots_.data(),
           .filter = filter_.data(),
           .last_slot = slots_.size() - 1,
           .shift = 32 - slot_bits,
           .filter_shift = 32 - filter_bits};
  for (size_t place = 0; place < merges.size(); ++place) insert(merges[place], rank_at(place, merges[place]));
}

void PairTable::insert(const Merge& merge, uint32_t rank) {
  const auto left = static_cast<uint32_t>(merge.left), right = static_cast<uint32_t>(merge.right);
  const uint64_t key = PairView::key(left, right);
  const uint32_t hash = PairView::hash(left, right);
  filter_[hash >> view_.filter_shift] |= static_cast<uint8_t>(1U << view_.filter_bit(hash));
  uint64_t slot = uint64_t{hash >> view_.shift} + 1;
  while (slots_[slot] != PairView::kEmpty && slots_[slot] >> 24 != key) slot = slot == view_.last_slot ? 1 : slot + 1;
  if (slots_[slot] == PairView::kEmpty) slots_[slot] = key << 24 | rank;
}

}  // namespace trireme
