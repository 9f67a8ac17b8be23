// Hand-written matchers for the patterns after GPT-2's, character by character. A function named *_word_end returns the end of
// the word that starts at `at`.
#pragma once

#include <limits>

#include "data/tokenizer/word_pattern.h"

namespace trireme {

struct TextView {
  const uint8_t* end;
  const CharClassTable* classes;
};

struct ScannedChar {
  uint8_t kind = kOther;
  uint32_t length = 0;  // 0 at the end of the text
  bool is(uint8_t kinds) const { return (kind & kinds) != 0; }
  bool is_text_of_no_word() const { return length != 0 && !is(kLetter | kNumber | kSpace); }  // [^\s\p{L}\p{N}]
};

inline ScannedChar char_at(const TextView& text, const uint8_t* at) {
  if (at >= text.end) return {};
  const DecodedChar decoded = decode_utf8(at, static_cast<uint64_t>(text.end - at));
  if (decoded.length == 0) return {kOther, 1};  // a byte of invalid UTF-8 is its own character
  return {text.classes->of(decoded.code_point), decoded.length};
}

inline bool is_line_break(const TextView& text, const uint8_t* at) { return at < text.end && (*at == '\n' || *at == '\r'); }

template <class Belongs>
const uint8_t* skip_while(const TextView& text, const uint8_t* at, Belongs belongs) {
  for (ScannedChar next = char_at(text, at); next.length != 0 && belongs(next); next = char_at(text, at)) at += next.length;
  return at;
}

enum class FinalSpace : uint8_t { one_word, cut_after_line_break };

// Returns the end of \s*[\r\n]+|\s+(?!\S)|\s+ with, for one_word, \s++$ before them.
const uint8_t* space_end(const TextView& text, const uint8_t* at, FinalSpace final_space);

// Returns the end of (?i:'s|'t|'re|'ve|'m|'ll|'d), or `at` if it does not match.
const uint8_t* contraction_end(const TextView& text, const uint8_t* at);

// Returns the end of " ?[^\s\p{L}\p{N}]+" followed by any of `tail`, or `at` if it does not match.
const uint8_t* marks_end(const TextView& text, const uint8_t* at, std::string_view tail);

constexpr int kAnyNumber = std::numeric_limits<int>::max();
const uint8_t* numbers_end(const TextView& text, const uint8_t* at, int most);

template <int kMostDigits, FinalSpace kFinalSpace>
const uint8_t* cl100k_word_end(const TextView& text, const uint8_t* at) {
  if (const uint8_t* end = contraction_end(text, at); end != at) return end;
  const auto is_letter = [](ScannedChar next) { return next.is(kLetter); };
  const ScannedChar first = char_at(text, at);
  if (first.is(kNumber)) return numbers_end(text, at, kMostDigits);
  if (first.is(kLetter) || (!is_line_break(text, at) && char_at(text, at + first.length).is(kLetter)))
    return skip_while(text, at + first.length, is_letter);
  if (const uint8_t* end = marks_end(text, at, "\r\n"); end != at) return end;
  return space_end(text, at, kFinalSpace);
}

const uint8_t* o200k_word_end(const TextView& text, const uint8_t* at);

template <auto word_end>
SplitResult split_by(SplitState& state, const CharClassTable& classes, const uint8_t* origin, size_t blocks, uint32_t* starts) {
  const TextView text{state.end, &classes};
  const size_t left = static_cast<size_t>(state.end - state.at);
  const uint8_t* limit = state.at + (left < 64 * blocks ? left : 64 * blocks);
  size_t words = 0;
  for (; state.at < limit; state.at = word_end(text, state.at)) starts[words++] = static_cast<uint32_t>(state.at - origin);
  return {words, state.at >= state.end};
}

}  // namespace trireme
