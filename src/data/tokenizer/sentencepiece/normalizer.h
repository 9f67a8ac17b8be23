// Text as the pieces of a sentencepiece model were learnt from it: rules applied, spaces cleared up and written as U+2581.
#pragma once

#include <string>
#include <string_view>

#include "data/tokenizer/sentencepiece/charsmap.h"
#include "data/tokenizer/sentencepiece/model_file.h"
#include "data/tokenizer/sentencepiece/piece_trie.h"

namespace trireme {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581

// Bytes of the character that `text` begins with, by its first byte; at most all there are.
size_t character_length(std::string_view text);

class Normalizer {
 public:
  // Texts in `user_defined` stay as they are. It must outlive the normalizer, and `rules` too.
  Normalizer(const std::string& source, const NormalizerRules& rules, const PieceTrie& user_defined);

  // Replaces what is in `normalized`.
  void normalize(std::string_view text, std::string& normalized) const;

 private:
  struct Step {
    size_t length = 0;          // of the text that is taken
    std::string_view replaced;  // what becomes of it
  };
  Step step(std::string_view text) const;
  void append(std::string_view replaced, std::string& normalized) const;

  const NormalizerRules& rules_;
  const PieceTrie& user_defined_;
  CharsMap charsmap_;
  std::string_view space_;  // as it is written
};

}  // namespace trireme
