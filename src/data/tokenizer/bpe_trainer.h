// Learns a byte-pair vocabulary from text: counts words, then repeatedly merges the most frequent adjacent pair. The result
// depends only on the text and the settings, not on threads or the order of documents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/thread_pool.h"
#include "data/tokenizer/bpe_model.h"
#include "data/tokenizer/word_pattern.h"

namespace trireme {

struct WordCount {
  std::string word;
  int64_t count = 0;
};

class WordCounter {
 public:
  WordCounter(WordPattern pattern, ThreadPool& pool);

  static constexpr size_t kLongestWord = 256;  // longer words are left out: they teach nothing and cost much

  void add(const std::vector<std::string>& documents);  // uses all threads
  int64_t bytes() const { return bytes_; }
  int64_t words() const { return words_; }

  std::vector<WordCount> take();  // sorted by word

 private:
  struct HashText : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Counts = std::unordered_map<std::string, int64_t, HashText, std::equal_to<>>;
  void count_words(std::string_view text, Counts& counts) const;

  SplitWords split_;
  ThreadPool& pool_;
  std::vector<Counts> counts_;  // per thread
  int64_t bytes_ = 0, words_ = 0;
};

struct TrainingSettings {
  int64_t vocabulary = 0;   // number of tokens, including the 256 bytes and the special tokens
  int64_t least_count = 2;  // rarer pairs are not merged
  std::vector<std::string> special_tokens = {"<|endoftext|>"};  // get the last ids
};

struct TrainedVocabulary {
  std::vector<std::string> tokens;  // [id] bytes: single bytes first, in the order of GPT-2's files, then merges
  std::vector<Merge> merges;
  std::vector<std::string> special_tokens;  // their ids follow those of `tokens`
};

// Among equally frequent pairs the lowest left id merges first, then the lowest right id. Returns fewer tokens than requested if
// no pair is frequent enough.
TrainedVocabulary train_bpe(std::vector<WordCount> words, const TrainingSettings& settings);

// The files that other programs read.
std::string write_vocab_json(const TrainedVocabulary& vocabulary);
// The first line names the pattern unless it is GPT-2's; other readers ignore that line.
std::string write_merges_txt(const TrainedVocabulary& vocabulary, WordPattern pattern);
std::string write_tokenizer_json(const TrainedVocabulary& vocabulary, WordPattern pattern);

}  // namespace trireme
