// A byte-pair vocabulary: the bytes of every token and the order of merges, from which the tokens of a word follow. Immutable, so
// all threads share one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/kernels/word_kernels.h"
#include "data/tokenizer/pair_table.h"
#include "data/tokenizer/word_table.h"

namespace trireme {

// What happens to a word that is a token as a whole. merged: its bytes are merged like any other word's and may give other tokens
// (GPT-2's original encoder). looked_up: it becomes that token (tiktoken; ignore_merges in a tokenizer.json).
enum class WholeWords : uint8_t { merged, looked_up };

// Scratch for merging a long word; the caller reuses it for all words.
struct MergeScratch {
  std::vector<int32_t> tokens;
  std::vector<uint32_t> previous, next;
  std::vector<uint64_t> heap;
  int64_t operations = 0;  // pairs examined in all words so far
};

class BpeModel {
 public:
  // tokens[id] has the bytes of a token; empty for ids without text. Merges are in rank order. UserError, prefixed by `source`,
  // if a byte has no token.
  BpeModel(const std::string& source, std::vector<std::string> tokens, const std::vector<Merge>& merges, WholeWords whole_words);

  // Builds a model from a rank file as tiktoken does: adjacent tokens merge if their concatenation is a token, the lowest id
  // first.
  static BpeModel from_ranks(const std::string& source, std::vector<std::string> tokens);

  BpeModel(BpeModel&&) = default;  // not copyable: exceptions_ points into tokens_

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  const std::string& bytes(int32_t token) const { return tokens_[static_cast<size_t>(token)]; }
  const std::vector<std::string>& tokens() const { return tokens_; }

  // Returns the words of up to 15 bytes that are one token, lowest ids first, as many as fit in an encoder's table. Encoders
  // start with them.
  std::span<const WordEntry> known_words() const { return known_; }

  // Writes the tokens of one word to `out`, at most one per byte. Returns their number.
  size_t merge_word(std::string_view word, int32_t* out, MergeScratch& scratch, const WordKernels& kernels) const;

 private:
  size_t merge_bytes(std::string_view word, int32_t* out, MergeScratch& scratch, const WordKernels& kernels) const;
  size_t merge_long(std::string_view word, int32_t* out, MergeScratch& scratch) const;
  MergeView merge_view() const { return {pairs_.view(), pairs_.merged_tokens(), byte_pairs_.data(), byte_tokens_.data()}; }
  void find_byte_pairs(const std::vector<Merge>& merges);
  void find_exceptions();
  void find_known_words();

  std::vector<std::string> tokens_;
  PairTable pairs_;
  std::array<int32_t, 256> byte_tokens_{};

  LargeArray<BytePair> byte_pairs_;  // [BytePair::place_of]
  // Words that are looked up, not merged: tokens that their own bytes do not merge into. Vocabularies learnt by merging have
  // none.
  std::unordered_map<std::string_view, int32_t> exceptions_;
  std::vector<WordEntry> known_;
};

}  // namespace trireme
