// The tokens of one word: the adjacent pair of lowest rank merges first, ties to the left, until no adjacent pair merges.
#include <algorithm>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "data/tokenizer/bpe_model.h"

namespace trireme {
namespace {

constexpr uint32_t kEnd = 0xFFFFFFFF;

}  // namespace

size_t BpeModel::merge_word(std::string_view word, int32_t* out, MergeScratch& scratch, const WordKernels& kernels) const {
  if (!exceptions_.empty()) [[unlikely]] {
    if (const auto found = exceptions_.find(word); found != exceptions_.end()) {
      out[0] = found->second;
      return 1;
    }
  }
  return merge_bytes(word, out, scratch, kernels);
}

// Short words search linearly for the lowest rank; long words use a heap.
size_t BpeModel::merge_bytes(std::string_view word, int32_t* out, MergeScratch& scratch, const WordKernels& kernels) const {
  if (word.size() > kMaxShortWord) return merge_long(word, out, scratch);
  return kernels.merge_short(merge_view(), word.data(), word.size(), out);
}

// A heap of (rank, position). Stale entries stay until they are popped. Each pair that ever existed has at most one entry, so the
// total is n log n.
size_t BpeModel::merge_long(std::string_view word, int32_t* out, MergeScratch& scratch) const {
  if (word.size() >= kEnd) throw Failure("a word of {} bytes without a break cannot be tokenized", word.size());
  const auto length = static_cast<uint32_t>(word.size());
  std::vector<int32_t>& tokens = scratch.tokens;
  std::vector<uint32_t>&previous = scratch.previous, &next = scratch.next;
  std::vector<uint64_t>& heap = scratch.heap;
  tokens.resize(length);
  previous.resize(length);
  next.resize(length);
  heap.clear();
  const auto rank_at = [&](uint32_t at) {
    ++scratch.operations;
    return next[at] == kEnd ? PairView::kNoRank
                            : pairs_.rank(static_cast<uint32_t>(tokens[at]), static_cast<uint32_t>(tokens[next[at]]));
  };
  const auto entry_of = [](uint32_t rank, uint32_t at) { return uint64_t{rank} << 32 | at; };
  for (uint32_t i = 0; i < length; ++i) {
    tokens[i] = byte_tokens_[static_cast<uint8_t>(word[i])];
    previous[i] = i - 1;  // kEnd for the first
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
