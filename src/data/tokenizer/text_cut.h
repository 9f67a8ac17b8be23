// Places where a text can be cut without changing its tokens, so that long documents are encoded in pieces.
//
// A place is safe if, independent of more distant text, a word of the pattern ends there and the words before it are the same
// when the text ends there. No pattern looks back, so the words after it are then the same too. L is a letter, N a number, S
// white space, B a line break (\r or \n), M a combining mark and O anything else:
//
//   all patterns          L | not L, not M, not '      N | not N, not M      O | N      O or M | S but not B
//                         not S, \n | not S, not M, not /          (the line feed is all of the white space)
//   gpt2                  O or M | B                 (line breaks belong to white space)
//   all others            O, B...B | not B, not /    (line breaks belong to the marks before them)
//
// The apostrophe starts contractions, which end words in o200k. In o200k combining marks belong to letters, and / to line breaks
// after marks.
#pragma once

#include <string_view>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/word_pattern.h"

namespace trireme {

enum class TextForm : uint8_t { as_it_is, nfc };

class TextCutter {
 public:
  // No cut touches a token of `added`, a token of `normalized` in the text in `form`, or a character that `form` changes. Both
  // finders must outlive the cutter.
  TextCutter(WordPattern pattern, TextForm form, const AddedTokenFinder& added, const AddedTokenFinder& normalized);

  // Returns the last safe place in `text`, which continues after its end, or 0. The caller has found none in the first `searched`
  // bytes.
  size_t last(std::string_view text, size_t searched = 0) const;

 private:
  struct Char {
    uint8_t kind = kOther;
    size_t length = 1;
    bool is(uint8_t kinds) const { return (kind & kinds) != 0; }
    bool is_other() const { return !is(kLetter | kNumber | kSpace | kMark); }
  };
  Char char_at(std::string_view text, size_t at) const;
  Char char_before(std::string_view text, size_t at) const;
  bool is_safe(std::string_view text, size_t at) const;
  bool touches_added(std::string_view text, size_t at) const { return added_.touches(text, at) || normalized_.touches(text, at); }
  bool is_changed_around(std::string_view text, size_t begin, size_t end) const;
  bool ends_word(std::string_view text, size_t at, const Char& before, const Char& after) const;
  bool ends_line_breaks(std::string_view text, size_t at, const Char& after) const;

  LineBreaks line_breaks_;
  TextForm form_;
  const AddedTokenFinder &added_, &normalized_;
  const CharClassTable& classes_;
};

}  // namespace trireme
