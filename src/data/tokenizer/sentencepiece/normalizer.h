// Normalizes text for a sentencepiece model: applies the rules, cleans up spaces and writes them as U+2581.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizer/sentencepiece/charsmap.h"
#include "data/tokenizer/sentencepiece/model_file.h"
#include "data/tokenizer/sentencepiece/piece_trie.h"

namespace trireme {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581

// Returns the bytes of the first character of `text`, from its first byte; at most text.size().
size_t character_length(std::string_view text);

class Normalizer {
 public:
  // Texts in `user_defined` stay unchanged. `rules` and `user_defined` must outlive the normalizer.
  Normalizer(const std::string& source, const NormalizerRules& rules, const PieceTrie& user_defined);

  // Replaces the contents of `normalized`.
  void normalize(std::string_view text, std::string& normalized) const;

  // The same for text that follows a cut after a non-space: adds no prefix.
  void normalize_rest(std::string_view text, std::string& normalized) const;

  struct Step {
    size_t length = 0;          // of the consumed text
    std::string_view replaced;  // its replacement, before spaces are written as space()
  };
  // Returns the first step of a non-empty text.
  Step step(std::string_view text) const;

  std::optional<size_t> longest_step() const { return longest_step_; }  // bytes; no value: unknown, because the rules are damaged
  std::string_view space() const { return space_; }                     // the written form of a space

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
