// The tokens of a word of at most 64 bytes: the adjacent pair of lowest rank merges first, ties to the left, until no adjacent
// pair merges. Merges are hard to predict, so there are few branches: one at the end of each loop.
#pragma once

#if defined(__AVX512BW__)
  #include <immintrin.h>
#endif

#include "data/tokenizer/kernels/word_kernels.h"

namespace trireme {
namespace {

[[gnu::always_inline]] inline int32_t merged_token(const MergeView& view, uint32_t rank) {
  return view.merged == nullptr ? static_cast<int32_t>(rank) : view.merged[rank];
}

[[gnu::always_inline]] inline uint32_t rank_of(const MergeView& view, int32_t left, int32_t right) {
  return view.pairs.rank(static_cast<uint32_t>(left), static_cast<uint32_t>(right));
}

// Merges two bytes immediately if they are certain to merge: their rank is lower than that of any merge that could take one of
// them, whatever the adjacent tokens. Nothing of a higher rank merges before them, so they do merge. Their token takes part in
// merges of higher rank only, so merging early makes no difference. No byte is in two such pairs, because each would need the
// lower rank.
[[gnu::always_inline]] inline size_t begin_word(const MergeView& view, const uint8_t* bytes, size_t length, int32_t* tokens) {
  static constexpr BytePair kNothing{};
  const auto pair_at = [table = view.byte_pairs, bytes](size_t i) { return &table[BytePair::place_of(bytes + i)]; };
  size_t count = 0, taken = 0;  // taken: 1 if the previous byte's pair includes this one
  const auto put = [&](const BytePair* before, const BytePair* here, const BytePair* after) {
    const uint64_t is_pair = without_branches(static_cast<uint64_t>(here->rank < before->lowest_before) &
                                              static_cast<uint64_t>(here->rank < after->lowest_after));
    const auto mask = -static_cast<int32_t>(is_pair);
    const int32_t merged = merged_token(view, here->rank & static_cast<uint32_t>(mask));
    tokens[count] = here->first ^ ((here->first ^ merged) & mask);
    count += 1 - taken;  // the entry of a taken byte is overwritten
    taken = is_pair;
  };
  const BytePair *before = &kNothing, *here = length > 1 ? pair_at(0) : &kNothing;
  for (size_t i = 0; i + 2 < length; ++i) {
    const BytePair* after = pair_at(i + 1);
    put(before, here, after);
    before = here;
    here = after;
  }
  if (length > 1) put(before, here, &kNothing);
  tokens[count] = view.byte_tokens[bytes[length - 1]];
  return count + 1 - taken;
}

[[gnu::always_inline]] inline size_t merge_many(const MergeView& view, int32_t* tokens, size_t count) {
  uint32_t ranks[kMaxShortWord];  // of each token and its successor
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = rank_of(view, tokens[i], tokens[i + 1]);
  while (count > 1) {
    uint32_t lowest = ranks[0];
    size_t at = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      at = ranks[i] < lowest ? i : at;
      lowest = ranks[i] < lowest ? ranks[i] : lowest;
    }
    if (lowest == PairView::kNoRank) break;
    tokens[at] = merged_token(view, lowest);
    --count;
    for (size_t i = at + 1; i < count; ++i) tokens[i] = tokens[i + 1];
    for (size_t i = at; i + 1 < count; ++i) ranks[i] = ranks[i + 1];
    if (at > 0) ranks[at - 1] = rank_of(view, tokens[at - 1], tokens[at]);
    if (at + 1 < count) ranks[at] = rank_of(view, tokens[at], tokens[at + 1]);
  }
  return count;
}

#if defined(__AVX512BW__)

// The same for up to 16 tokens, with all ranks in one register: no scalar search, no scalar moves.
constexpr size_t kMaxFew = 16;

// tokens[-1] and those from `count` to kMaxFew + 1 must be kNoToken, which never merges.
[[gnu::always_inline]] inline size_t merge_few(const MergeView& view, int32_t* tokens, size_t count) {
  const auto lane = [](uint32_t bit) { return static_cast<__mmask16>(bit); };
  const __m512i no_token = _mm512_set1_epi32(kNoToken), no_rank = _mm512_set1_epi32(static_cast<int>(PairView::kNoRank));
  const __m512i places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i ranks = no_rank;
  for (size_t i = 0; i + 1 < count; ++i)
    ranks = _mm512_mask_set1_epi32(ranks, lane(1U << i), static_cast<int>(rank_of(view, tokens[i], tokens[i + 1])));
  for (; _mm512_cmplt_epu32_mask(ranks, no_rank) != 0; --count) {
    // The position is in the low bits, so the leftmost of equal ranks is the minimum.
    const uint32_t lowest = _mm512_reduce_min_epu32(_mm512_or_si512(_mm512_slli_epi32(ranks, 4), places));
    const uint32_t at = lowest % kMaxFew, here = 1U << at;
    const int32_t token = merged_token(view, lowest / kMaxFew);
    const uint32_t rank_before = rank_of(view, tokens[static_cast<ptrdiff_t>(at) - 1], token);
    const uint32_t rank_after = rank_of(view, token, tokens[at + 2]);
    const __m512i merged = _mm512_mask_set1_epi32(_mm512_loadu_si512(tokens), lane(here), token);
    _mm512_storeu_si512(tokens, _mm512_mask_compress_epi32(no_token, lane(~(here << 1)), merged));
    ranks = _mm512_mask_compress_epi32(no_rank, lane(~here), ranks);
    ranks = _mm512_mask_set1_epi32(ranks, lane(here >> 1), static_cast<int>(rank_before));
    ranks = _mm512_mask_set1_epi32(ranks, lane(here), static_cast<int>(rank_after));
  }
  return count;
}

size_t merge_short(const MergeView& view, const char* word, size_t length, int32_t* out) {
  alignas(64) int32_t padded[kMaxFew + kMaxShortWord + kMaxFew];
  int32_t* tokens = padded + kMaxFew;
  size_t count = begin_word(view, reinterpret_cast<const uint8_t*>(word), length, tokens);
  if (count > kMaxFew) {
    count = merge_many(view, tokens, count);
    for (size_t i = 0; i < count; ++i) out[i] = tokens[i];
    return count;
  }
  tokens[-1] = kNoToken;
  _mm512_storeu_si512(tokens + count, _mm512_set1_epi32(kNoToken));
  count = merge_few(view, tokens, count);
  _mm512_mask_storeu_epi32(out, static_cast<__mmask16>((1U << count) - 1), _mm512_load_si512(tokens));
  return count;
}

#else

size_t merge_short(const MergeView& view, const char* word, size_t length, int32_t* out) {
  int32_t tokens[kMaxShortWord];
  const size_t count = merge_many(view, tokens, begin_word(view, reinterpret_cast<const uint8_t*>(word), length, tokens));
  for (size_t i = 0; i < count; ++i) out[i] = tokens[i];
  return count;
}

#endif

}  // namespace
}  // namespace trireme
