// What the tokenizer tests share: strings that try every corner, a vocabulary made on the spot, and the slow, plain way to do
// what the encoder does fast.
#pragma once

#include <filesystem>
#include <map>
#include <random>

#include "data/tokenizer/bpe_tokenizer.h"
#include "data/tokenizer/bpe_trainer.h"

namespace trireme {

// Words of many alphabets, white space of all kinds, apostrophes, digits, emoji, and bytes that are not UTF-8.
inline std::string random_text(std::mt19937& random, size_t pieces) {
  static const std::vector<std::string> kParts = {"a",
                                                  "b",
                                                  "the",
                                                  " the",
                                                  "ing",
                                                  "'s",
                                                  "'ll",
                                                  "'re",
                                                  "'",
                                                  "''",
                                                  "'S",
                                                  "’s",
                                                  " ",
                                                  "  ",
                                                  "\n",
                                                  "\r\n",
                                                  "\t",
                                                  "0",
                                                  "12",
                                                  "3456",
                                                  "é",
                                                  "ß",
                                                  "Привет",
                                                  " мир",
                                                  "中文",
                                                  "日本",
                                                  "한국",
                                                  "مرحبا",
                                                  "नमस्ते",
                                                  "\u00A0",
                                                  "\u0085",
                                                  "\u3000",
                                                  "\u2028",
                                                  "\u200B",
                                                  "\uFEFF",
                                                  "\u180E",
                                                  "½",
                                                  "²",
                                                  "Ⅷ",
                                                  "😀",
                                                  "👨‍👩‍👧",
                                                  "e\u0301",
                                                  "=",
                                                  "==",
                                                  "!!",
                                                  "<|endoftext|>",
                                                  "ſ",
                                                  "A",
                                                  "XY",
                                                  "Ǆ",
                                                  std::string(1, '\0'),
                                                  "\xFF",
                                                  "\xE4\xB8",
                                                  "\xC0\x80",
                                                  "\xED\xA0\x80",
                                                  "\xF4\x90\x80\x80",
                                                  "\xF0\x9F",
                                                  "\x1C",
                                                  "\x7F",
                                                  "aaaaaaaaaaaaaaaaaaaa",
                                                  "/",
                                                  "--------------------"};
  std::string text;
  for (size_t i = 0; i < pieces; ++i) {
    const std::string& part = kParts[random() % kParts.size()];
    for (size_t times = random() % 16 == 0 ? random() % 40 : 1; times > 0; --times) text += part;
  }
  return text;
}

// A vocabulary of a few hundred merges, learnt from random text: every test has one, and it knows the alphabets above.
inline BpeDefinition small_definition(WordPattern pattern = WordPattern::gpt2) {
  std::mt19937 random(7);
  ThreadPool pool(1);
  WordCounter counter(pattern, pool);
  counter.add({random_text(random, 20000)});
  const TrainedVocabulary trained = train_bpe(counter.take(), {.vocabulary = 900});
  return {.model = BpeModel("made", trained.tokens, trained.merges, WholeWords::merged),
          .pattern = pattern,
          .added = {{"<|endoftext|>", static_cast<int32_t>(trained.tokens.size()), AddedToken::Kind::special}},
          .end_of_document = static_cast<int32_t>(trained.tokens.size())};
}

struct PlainChar {
  std::string bytes;
  uint8_t kind;
};

inline std::vector<PlainChar> characters_of(std::string_view text) {
  std::vector<PlainChar> characters;
  for (size_t at = 0; at < text.size();) {
    const DecodedChar decoded = decode_utf8(reinterpret_cast<const uint8_t*>(text.data()) + at, text.size() - at);
    const size_t length = std::max(decoded.length, 1U);
    const auto kind = decoded.length == 0 ? uint8_t{kOther} : CharClassTable::get().of(decoded.code_point);
    characters.push_back({std::string(text.substr(at, length)), kind});
    at += length;
  }
  return characters;
}

// GPT-2's pattern, one alternative after the other.
inline std::vector<std::string> plain_gpt2_words(std::string_view text) {
  const std::vector<PlainChar> all = characters_of(text);
  const auto group = [&](size_t i) {
    return (all[i].kind & kLetter) != 0 ? 1 : (all[i].kind & kNumber) != 0 ? 2 : (all[i].kind & kSpace) != 0 ? 3 : 0;
  };
  const auto join = [&](size_t begin, size_t end) {
    std::string word;
    for (; begin < end; ++begin) word += all[begin].bytes;
    return word;
  };
  std::vector<std::string> words;
  for (size_t at = 0; at < all.size();) {
    size_t end = at;
    for (const char* contraction : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
      if (const size_t length = std::string_view(contraction).size();
          end == at && join(at, std::min(at + length, all.size())) == contraction)
        end = at + length;
    if (end == at) {
      const size_t first = all[at].bytes == " " && at + 1 < all.size() && group(at + 1) != 3 ? at + 1 : at;
      end = first;
      while (end < all.size() && group(end) == group(first)) ++end;
      if (group(first) == 3 && end < all.size() && end - at > 1) --end;
    }
    words.push_back(join(at, end));
    at = end;
  }
  return words;
}

// Merging, by looking at every pair again after every merge.
class PlainMerger {
 public:
  PlainMerger(const std::vector<std::string>& tokens, std::vector<Merge> merges) : merges_(std::move(merges)) {
    for (size_t id = 0; id < tokens.size(); ++id)
      if (tokens[id].size() == 1) bytes_[tokens[id]] = static_cast<int32_t>(id);
    for (size_t rank = 0; rank < merges_.size(); ++rank) ranks_.try_emplace({merges_[rank].left, merges_[rank].right}, rank);
  }

  std::vector<int32_t> encode(const std::vector<std::string>& words) const {
    std::vector<int32_t> out;
    for (const std::string& word : words) {
      std::vector<int32_t> parts;
      for (const char byte : word) parts.push_back(bytes_.at(std::string(1, byte)));
      while (merge_lowest(parts)) {
      }
      out.insert(out.end(), parts.begin(), parts.end());
    }
    return out;
  }

 private:
  bool merge_lowest(std::vector<int32_t>& parts) const {
    size_t lowest = merges_.size(), at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks_.find({parts[i], parts[i + 1]});
      if (found == ranks_.end() || found->second >= lowest) continue;
      lowest = found->second;
      at = i;
    }
    if (lowest == merges_.size()) return false;
    parts[at] = merges_[lowest].merged;
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) + 1);
    return true;
  }

  std::vector<Merge> merges_;
  std::map<std::string, int32_t> bytes_;
  std::map<std::pair<int32_t, int32_t>, size_t> ranks_;
};

}  // namespace trireme
