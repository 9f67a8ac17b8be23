#include <algorithm>

#include "data/tokenizer/bpe_trainer.h"

namespace trireme {

WordCounter::WordCounter(WordPattern pattern, ThreadPool& pool)
    : split_(splitter_of(pattern, choose_word_kernels())), pool_(pool), counts_(static_cast<size_t>(pool.size())) {}

void WordCounter::add(const std::vector<std::string>& documents) {
  pool_.run_on_threads(static_cast<int64_t>(documents.size()), [&](int64_t i, int thread) {
    count_words(documents[static_cast<size_t>(i)], counts_[static_cast<size_t>(thread)]);
  });
  for (const std::string& document : documents) bytes_ += static_cast<int64_t>(document.size());
}

void WordCounter::count_words(std::string_view text, Counts& counts) const {
  constexpr size_t kBlocks = 64;
  std::vector<uint32_t> starts(1 + 64 * kBlocks + 16);
  const auto count = [&](std::string_view word) {
    if (word.empty() || word.size() > kLongestWord) return;
    const auto found = counts.find(word);
    if (found != counts.end())
      ++found->second;
    else
      counts.emplace(word, 1);
  };
  const char* begin = text.data();  // start of the word whose end is not known yet
  const char* end = begin + text.size();
  SplitState state{.at = reinterpret_cast<const uint8_t*>(begin), .end = reinterpret_cast<const uint8_t*>(end)};
  for (bool done = false; !done;) {
    const SplitResult result = split_(state, CharClassTable::get(), reinterpret_cast<const uint8_t*>(begin), kBlocks, &starts[1]);
    done = result.done;
    for (size_t i = 0; i < result.words; ++i) count({begin + starts[i], starts[i + 1] - starts[i]});
    begin += starts[result.words];
  }
  count({begin, static_cast<size_t>(end - begin)});
}

std::vector<WordCount> WordCounter::take() {
  Counts all = std::move(counts_.front());
  for (size_t i = 1; i < counts_.size(); ++i)
    for (const auto& [word, count] : counts_[i]) all[word] += count;
  std::vector<WordCount> words;
  words.reserve(all.size());
  for (const auto& [word, count] : all) {
    words.push_back({word, count});
    words_ += count;
  }
  counts_.assign(counts_.size(), {});
  std::ranges::sort(words, {}, &WordCount::word);
  return words;
}

}  // namespace trireme
