// Encodes text with a byte-pair vocabulary on one thread: splits it into words, looks them up in a cache, and merges new ones.
#pragma once

#include <vector>

#include "data/tokenizer/bpe_model.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/word_pattern.h"
#include "data/tokenizer/word_table.h"

namespace trireme {

class BpeEncoder {
 public:
  // The model must outlive the encoder.
  BpeEncoder(const BpeModel& model, WordPattern pattern, const WordKernels& kernels = choose_word_kernels());

  // Appends the tokens of a self-contained text: a document, or the text between two special tokens.
  void encode(std::string_view text, TokenBuffer& tokens);

  int64_t merge_operations() const { return scratch_.operations; }

 private:
  static int32_t* missed(void* encoder, const char* word, size_t length, WordKey key, int32_t* out);
  int32_t* encode_final(const char* word, size_t length,
                        int32_t* out);  // for words near the end of the text, where whole keys cannot be loaded
  int32_t* encode_word(std::string_view word, WordKey key, int32_t* out);
  int32_t* encode_long_word(std::string_view word, WordKey key, int32_t* out);
  void keep(WordKey key, uint64_t hash, std::span<const int32_t> tokens);
  int32_t* copy_elsewhere(uint32_t where, int32_t* out) const;
  std::string_view word_elsewhere(uint32_t where) const;
  uint32_t keep_elsewhere(std::string_view word, std::span<const int32_t> tokens);
  void make_room();

  const BpeModel& model_;
  const WordKernels& kernels_;
  SplitWords split_;
  const CharClassTable& classes_;
  WordTable words_;
  LargeArray<int32_t> elsewhere_;  // entries that do not fit in words_
  size_t elsewhere_used_ = 0;
  MergeScratch scratch_;
  std::vector<uint32_t> starts_;
};

}  // namespace trireme
