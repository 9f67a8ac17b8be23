#include "data/tokenizer/bpe_trainer.h"

#include <gtest/gtest.h>

#include "data/tokenizer/tokenizer_fixtures.h"

namespace trireme {
namespace {

// Counts every pair of every word anew for every merge.
std::vector<Merge> plain_train(const std::vector<WordCount>& words, std::vector<std::string> tokens, size_t wanted,
                               int64_t least_count) {
  std::vector<std::pair<std::vector<int32_t>, int64_t>> parts;
  for (const WordCount& word : words) {
    parts.push_back({{}, word.count});
    for (const char byte : word.word)
      parts.back().first.push_back(static_cast<int32_t>(std::ranges::find(tokens, std::string(1, byte)) - tokens.begin()));
  }
  std::vector<Merge> merges;
  while (tokens.size() < wanted) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (const auto& [word, count] : parts)
      for (size_t i = 0; i + 1 < word.size(); ++i) counts[{word[i], word[i + 1]}] += count;
    std::pair<int32_t, int32_t> best;
    int64_t most = 0;
    for (const auto& [pair, count] : counts)
      if (count > most) most = count, best = pair;
    if (most < least_count) break;
    const auto merged = static_cast<int32_t>(tokens.size());
    merges.push_back({best.first, best.second, merged});
    tokens.push_back(tokens[static_cast<size_t>(best.first)] + tokens[static_cast<size_t>(best.second)]);
    for (auto& [word, count] : parts)
      for (size_t i = 0; i + 1 < word.size(); ++i)
        if (word[i] == best.first && word[i + 1] == best.second) {
          word[i] = merged;
          word.erase(word.begin() + static_cast<ptrdiff_t>(i) + 1);
        }
  }
  return merges;
}

TEST(BpeTrainer, MergesWhatCountingAnewMerges) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::map<std::string, int64_t> counts;
    for (int i = 0; i < 200; ++i) {
      std::string word;
      for (size_t length = 1 + random() % 9; length > 0; --length) word += "abc "[random() % 4];
      counts[word] += 1 + static_cast<int64_t>(random() % 5);
    }
    std::vector<WordCount> words;
    for (const auto& [word, count] : counts) words.push_back({word, count});
    const TrainedVocabulary trained = train_bpe(words, {.vocabulary = 256 + 60, .special_tokens = {}});
    const std::vector<std::string> bytes(trained.tokens.begin(), trained.tokens.begin() + 256);
    const std::vector<Merge> expected = plain_train(words, bytes, 256 + 60, 2);
    ASSERT_EQ(trained.merges.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(trained.merges[i].left, expected[i].left) << i;
      ASSERT_EQ(trained.merges[i].right, expected[i].right) << i;
    }
  }
}

TEST(BpeTrainer, ThreadsAndTheOrderOfDocumentsChangeNothing) {
  std::mt19937 random(3);
  std::vector<std::string> documents;
  for (int i = 0; i < 40; ++i) documents.push_back(random_text(random, 200));
  const auto train = [](const std::vector<std::string>& texts, int threads) {
    ThreadPool pool(threads);
    WordCounter counter(WordPattern::gpt2, pool);
    counter.add(texts);
    return write_tokenizer_json(train_bpe(counter.take(), {.vocabulary = 500}), WordPattern::gpt2);
  };
  const std::string expected = train(documents, 1);
  std::ranges::reverse(documents);
  EXPECT_EQ(train(documents, 3), expected);
}

TEST(BpeTrainer, StopsWhereNoPairIsFrequentEnough) {
  const TrainedVocabulary trained = train_bpe({{"ab", 3}, {"cd", 1}}, {.vocabulary = 1000});
  ASSERT_EQ(trained.merges.size(), 1U);
  EXPECT_EQ(trained.tokens.back(), "ab");
}

}  // namespace
}  // namespace trireme
