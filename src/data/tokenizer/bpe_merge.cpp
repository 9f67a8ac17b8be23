// The tokens of one word: the pair of lowest rank merges, the leftmost of several, until no two neighbours do.
#include <algorithm>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "data/tokenizer/bpe_model.h"

namespace trireme {
namespace {

constexpr size_t kShortWord = 64;  // up to here the lowest rank is searched for; beyond, a heap keeps them in order
constexpr uint32_t kEnd = 0xFFFFFFFF;

}  // namespace

size_t BpeModel::merge_word(std::string_view word, int32_t* out, MergeScratch& scratch) const {
  if (!exceptions_.empty()) [[unlikely]] {
    if (const auto found = exceptions_.find(word); found != exceptions_.end()) {
      out[0] = found->second;
      return 1;
    }
  }
  return merge_bytes(word, out, scratch);
}

size_t BpeModel::merge_bytes(std::string_view word, int32_t* out, MergeScratch& scratch) const {
  return word.size() <= kShortWord ? merge_short(word, out) : merge_long(word, out, scratch);
}

// Two bytes that certainly become one token are made one at once: those whose rank is lower than that of any merge that could
// take one of them away, with whatever tokens can stand beside them. Until they merge nothing of a higher rank does, so they do
// merge; and as their token takes part in merges of higher ranks only, when they do makes no difference.
size_t BpeModel::begin_word(std::string_view word, int32_t* out, uint32_t* ranks) const {
  static constexpr BytePair kNothing{};
  const auto pair_at = [&](size_t i) {
    return i + 1 < word.size() ? &byte_pairs_[static_cast<uint8_t>(word[i]) << 8 | static_cast<uint8_t>(word[i + 1])] : &kNothing;
  };
  const BytePair *before = &kNothing, *here = pair_at(0), *after = pair_at(1);
  size_t count = 0;
  bool was_pair = false;
  for (size_t i = 0; i < word.size(); ++count) {
    const bool is_pair = here->merged >= 0 && here->rank < before->lowest_before && here->rank < after->lowest_after;
    out[count] = is_pair ? here->merged : byte_tokens_[static_cast<uint8_t>(word[i])];
    if (count > 0)
      ranks[count - 1] = is_pair || was_pair
                             ? pairs_.rank(static_cast<uint32_t>(out[count - 1]), static_cast<uint32_t>(out[count]))
                             : before->rank;
    was_pair = is_pair;
    i += is_pair ? 2 : 1;
    before = is_pair ? after : here;
    here = is_pair ? pair_at(i) : after;
    after = pair_at(i + 1);
  }
  return count;
}

size_t BpeModel::merge_short(std::string_view word, int32_t* out) const {
  uint32_t ranks[kShortWord];  // of each token with the one after it
  size_t count = begin_word(word, out, ranks);
  const auto rank_at = [&](size_t i) { return pairs_.rank(static_cast<uint32_t>(out[i]), static_cast<uint32_t>(out[i + 1])); };
  while (count > 1) {
    uint32_t lowest = ranks[0];
    size_t at = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      at = ranks[i] < lowest ? i : at;
      lowest = std::min(ranks[i], lowest);
    }
    if (lowest == PairView::kNoRank) break;
    out[at] = pairs_.merged(lowest);
    --count;
    for (size_t i = at + 1; i < count; ++i) out[i] = out[i + 1];
    for (size_t i = at; i + 1 < count; ++i) ranks[i] = ranks[i + 1];
    if (at > 0) ranks[at - 1] = rank_at(at - 1);
    if (at + 1 < count) ranks[at] = rank_at(at);
  }
  return count;
}

// A heap of (rank, place), in which entries whose pair is gone stay until they come up: at most one entry for each pair that ever
// existed, so n log n in all.
size_t BpeModel::merge_long(std::string_view word, int32_t* out, MergeScratch& scratch) const {
  if (word.size() >= kEnd) throw Failure("a word of {} bytes without a break cannot be tokenized", word.size());
  const auto length = static_cast<uint32_t>(word.size());
  auto& [tokens, previous, next, heap, operations] = scratch;
  tokens.resize(length);
  previous.resize(length);
  next.resize(length);
  heap.clear();
  const auto rank_at = [&](uint32_t at) {
    ++operations;
    return next[at] == kEnd ? PairView::kNoRank
                            : pairs_.rank(static_cast<uint32_t>(tokens[at]), static_cast<uint32_t>(tokens[next[at]]));
  };
  const auto entry_of = [](uint32_t rank, uint32_t at) { return uint64_t{rank} << 32 | at; };
  for (uint32_t i = 0; i < length; ++i) {
    tokens[i] = byte_tokens_[static_cast<uint8_t>(word[i])];
    previous[i] = i - 1;  // of the first: kEnd
    next[i] = i + 1 < length ? i + 1 : kEnd;
  }
  for (uint32_t i = 0; i < length; ++i)
    if (const uint32_t rank = rank_at(i); rank != PairView::kNoRank) heap.push_back(entry_of(rank, i));
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  const auto push = [&](uint32_t at) {
    const uint32_t rank = rank_at(at);
    if (rank == PairView::kNoRank) return;
    heap.push_back(entry_of(rank, at));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(heap.back() >> 32);
    const auto at = static_cast<uint32_t>(heap.back());
    heap.pop_back();
    if (tokens[at] < 0 || rank_at(at) != rank) continue;
    const uint32_t gone = next[at];
    tokens[at] = pairs_.merged(rank);
    tokens[gone] = -1;
    next[at] = next[gone];
    if (next[at] != kEnd) previous[next[at]] = at;
    if (previous[at] != kEnd) push(previous[at]);
    push(at);
  }
  size_t count = 0;
  for (uint32_t at = 0; at != kEnd; at = next[at]) out[count++] = tokens[at];
  return count;
}

}  // namespace trireme
