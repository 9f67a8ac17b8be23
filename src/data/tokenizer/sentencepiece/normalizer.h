// Text as the pieces of a sentencepiece model were learnt from it: rules applied, spaces cleared up and written as U+2581.
#pragma once

#include <optional>
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

  // The same for what follows something that does not end with a space: nothing is put before it.
  void normalize_rest(std::string_view text, std::string& normalized) const;

  struct Step {
    size_t length = 0;          // of the text that is taken
    std::string_view replaced;  // what becomes of it, before spaces are written as space()
  };
  // What a text that is not empty begins with.
  Step step(std::string_view text) const;

  std::optional<size_t> longest_step() const { return longest_step_; }  // bytes; nothing: not known, since the rules are damaged
  std::string_view space() const { return space_; }                     // as it is written

 private:
  void append_steps(std::string_view text, bool after_space, std::string& normalized) const;
  void append(std::string_view replaced, std::string& normalized) const;

  const NormalizerRules& rules_;
  const PieceTrie& user_defined_;
  CharsMap charsmap_;
  std::string_view space_;
  std::optional<size_t> longest_step_;
};

}  // namespace trireme
