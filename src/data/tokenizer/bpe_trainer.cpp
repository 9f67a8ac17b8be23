#include "data/tokenizer/bpe_trainer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>

#include "base/error.h"
#include "data/tokenizer/byte_alphabet.h"

namespace trireme {
namespace {

// Words as tokens, with the count and the words of each adjacent pair. A merge touches only the words that contain its pair.
class PairCounts {
 public:
  PairCounts(const std::vector<WordCount>& words, const std::array<int32_t, 256>& byte_tokens) {
    words_.reserve(words.size());
    for (const WordCount& word : words) {
      Word& made = words_.emplace_back();
      made.count = word.count;
      for (const char byte : word.word) made.tokens.push_back(byte_tokens[static_cast<uint8_t>(byte)]);
      for (size_t i = 0; i + 1 < made.tokens.size(); ++i)
        change(made.tokens[i], made.tokens[i + 1], words_.size() - 1, word.count);
    }
    for (const auto& [pair, places] : pairs_) queue_.push({places.count, pair});
  }

  struct Best {
    int64_t count = 0;
    int32_t left = 0, right = 0;
  };
  // Returns the most frequent pair; its count is 0 if there is none.
  Best take_best() {
    while (!queue_.empty()) {
      const Queued top = queue_.top();
      queue_.pop();
      const int64_t count = pairs_.at(top.pair).count;
      if (count == top.count) return {count, static_cast<int32_t>(top.pair >> 32), static_cast<int32_t>(top.pair)};
      if (count > 0) queue_.push({count, top.pair});  // its count has dropped since it was queued
    }
    return {};
  }

  void merge(int32_t left, int32_t right, int32_t merged) {
    std::vector<uint32_t> places = std::move(pairs_.at(key_of(left, right)).words);
    std::ranges::sort(places);
    places.erase(std::unique(places.begin(), places.end()), places.end());
    grown_.clear();
    for (const uint32_t place : places) merge_in(place, left, right, merged);
    std::ranges::sort(grown_);
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const uint64_t pair : grown_) queue_.push({pairs_.at(pair).count, pair});
  }

 private:
  struct Word {
    std::vector<int32_t> tokens;
    int64_t count = 0;
  };
  struct Places {
    int64_t count = 0;
    std::vector<uint32_t> words;  // words that contain or contained the pair, possibly twice
  };
  struct Queued {
    int64_t count;
    uint64_t pair;
    bool operator<(const Queued& other) const { return count != other.count ? count < other.count : pair > other.pair; }
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  void change(int32_t left, int32_t right, size_t word, int64_t count) {
    Places& places = pairs_[key_of(left, right)];
    places.count += count;
    if (count > 0 && (places.words.empty() || places.words.back() != word)) places.words.push_back(static_cast<uint32_t>(word));
  }

  void merge_in(uint32_t place, int32_t left, int32_t right, int32_t merged) {
    Word& word = words_[place];
    std::vector<int32_t>& tokens = word.tokens;
    const auto add = [&](int32_t a, int32_t b) {
      change(a, b, place, word.count);
      grown_.push_back(key_of(a, b));
    };
    size_t kept = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i + 1 == tokens.size() || tokens[i] != left || tokens[i + 1] != right) {
        tokens[kept++] = tokens[i];
        continue;
      }
      change(left, right, place, -word.count);
      if (kept > 0) {
        change(tokens[kept - 1], left, place, -word.count);
        add(tokens[kept - 1], merged);
      }
      if (i + 2 < tokens.size()) {
        change(right, tokens[i + 2], place, -word.count);
        // If the same pair follows directly, its own merge updates the pair with `merged` on its left.
        add(merged, tokens[i + 2]);
      }
      tokens[kept++] = merged;
      ++i;
    }
    tokens.resize(kept);
  }

  std::vector<Word> words_;
  std::unordered_map<uint64_t, Places> pairs_;
  std::priority_queue<Queued> queue_;
  std::vector<uint64_t> grown_;  // pairs created by the current merge
};

// Returns the 256 bytes in the order of their characters in files, so that ids 0 to 255 equal GPT-2's.
std::vector<std::string> byte_tokens_in_order() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  std::ranges::sort(tokens, [](const std::string& a, const std::string& b) {
    return ByteAlphabet::get().order(a[0]) < ByteAlphabet::get().order(b[0]);
  });
  return tokens;
}

using OrderedJson = nlohmann::ordered_json;

OrderedJson vocab_object(const TrainedVocabulary& vocabulary) {
  OrderedJson object = OrderedJson::object();
  int32_t id = 0;
  for (const std::string& token : vocabulary.tokens) object.push_back({ByteAlphabet::get().write(token), id++});
  for (const std::string& token : vocabulary.special_tokens) object.push_back({token, id++});
  return object;
}

}  // namespace

TrainedVocabulary train_bpe(std::vector<WordCount> words, const TrainingSettings& settings) {
  TrainedVocabulary vocabulary{.tokens = byte_tokens_in_order(), .special_tokens = settings.special_tokens};
  std::array<int32_t, 256> byte_tokens{};
  for (size_t id = 0; id < 256; ++id) byte_tokens[static_cast<uint8_t>(vocabulary.tokens[id][0])] = static_cast<int32_t>(id);
  PairCounts pairs(words, byte_tokens);
  words.clear();
  const auto wanted = static_cast<size_t>(settings.vocabulary) - settings.special_tokens.size();
  while (vocabulary.tokens.size() < wanted) {
    const PairCounts::Best best = pairs.take_best();
    if (best.count < settings.least_count || best.count == 0) break;
    const auto merged = static_cast<int32_t>(vocabulary.tokens.size());
    vocabulary.tokens.push_back(vocabulary.tokens[static_cast<size_t>(best.left)] +
                                vocabulary.tokens[static_cast<size_t>(best.right)]);
    vocabulary.merges.push_back({best.left, best.right, merged});
    pairs.merge(best.left, best.right, merged);
  }
  return vocabulary;
}

std::string write_vocab_json(const TrainedVocabulary& vocabulary) { return vocab_object(vocabulary).dump(); }

std::string write_merges_txt(const TrainedVocabulary& vocabulary, WordPattern pattern) {
  std::string text = "#version: 0.2";
  if (pattern != WordPattern::gpt2) text.append(" pattern: ").append(name_of(pattern));
  text += "\n";
  for (const Merge& merge : vocabulary.merges)
    text += ByteAlphabet::get().write(vocabulary.tokens[static_cast<size_t>(merge.left)]) + " " +
            ByteAlphabet::get().write(vocabulary.tokens[static_cast<size_t>(merge.right)]) + "\n";
  return text;
}

std::string write_tokenizer_json(const TrainedVocabulary& vocabulary, WordPattern pattern) {
  OrderedJson added = OrderedJson::array(), merges = OrderedJson::array();
  for (size_t i = 0; i < vocabulary.special_tokens.size(); ++i)
    added.push_back({{"id", vocabulary.tokens.size() + i},
                     {"content", vocabulary.special_tokens[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  for (const Merge& merge : vocabulary.merges)
    merges.push_back({ByteAlphabet::get().write(vocabulary.tokens[static_cast<size_t>(merge.left)]),
                      ByteAlphabet::get().write(vocabulary.tokens[static_cast<size_t>(merge.right)])});
  const auto byte_level = [](bool use_regex) {
    return OrderedJson{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
  };
  OrderedJson pre_tokenizer = byte_level(true);
  if (pattern != WordPattern::gpt2) {
    const OrderedJson split = {
        {"type", "Split"}, {"pattern", {{"Regex", regex_of(pattern)}}}, {"behavior", "Isolated"}, {"invert", false}};
    pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", OrderedJson::array({split, byte_level(false)})}};
  }
  const OrderedJson root = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", added},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", pre_tokenizer},
                            {"post_processor", nullptr},
                            {"decoder", byte_level(true)},
                            {"model",
                             {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"ignore_merges", false},
                              {"vocab", vocab_object(vocabulary)},
                              {"merges", merges}}}};
  return root.dump();
}

}  // namespace trireme
