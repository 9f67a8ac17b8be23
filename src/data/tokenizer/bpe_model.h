// A byte-pair vocabulary: the bytes of every token, which pairs merge in which order, and from them the tokens of one word.
// Never changes once made, so all threads share one.
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

// What becomes of a word that is a token as a whole: its bytes are merged like any other's, and may end elsewhere (GPT-2's
// original encoder), or it is that token (tiktoken; ignore_merges in a tokenizer.json).
enum class WholeWords : uint8_t { merged, looked_up };

// Memory that merging a long word needs; kept by the caller from word to word.
struct MergeScratch {
  std::vector<int32_t> tokens;
  std::vector<uint32_t> previous, next;
  std::vector<uint64_t> heap;
  int64_t operations = 0;  // pairs looked at, in all words so far
};

class BpeModel {
 public:
  // tokens[id]: its bytes, empty for ids without text. Merges stand in the order of their ranks. UserError, with `source` in
  // front, when a byte has no token.
  BpeModel(const std::string& source, std::vector<std::string> tokens, const std::vector<Merge>& merges, WholeWords whole_words);

  // As tiktoken reads a rank file: two neighbours merge when their concatenation is a token, the lowest id first.
  static BpeModel from_ranks(const std::string& source, std::vector<std::string> tokens);

  BpeModel(BpeModel&&) = default;  // not copied: exceptions_ points into tokens_

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  const std::string& bytes(int32_t token) const { return tokens_[static_cast<size_t>(token)]; }
  const std::vector<std::string>& tokens() const { return tokens_; }

  // The words of up to 15 bytes that are one token, the lowest ids first, as many as an encoder's table has room for. Encoders
  // begin with them.
  std::span<const WordEntry> known_words() const { return known_; }

  // The tokens of one word, at most as many as it has bytes, written to `out`. Returns how many.
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
