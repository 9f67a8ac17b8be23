// Places where a text can be cut without changing its tokens, so that long documents are encoded piece by piece.
//
// A place is safe when, whatever stands farther away, a word of the pattern ends there, and the words before it are the same
// when the text ends there. No pattern looks back, so the words after it are then the same, too. With L a letter, N a number,
// S white space, B a line break (\r or \n), M a combining mark and O anything else:
//
//   all patterns          L | not L, not M, not '      N | not N, not M      O | N      O or M | S but not B
//                         not S, \n | not S, not M, not /          (the line feed is all of the white space)
//   gpt2                  O or M | B                 (line breaks belong to white space)
//   all others            O, B...B | not B, not /    (line breaks belong to the marks before them)
//
// The apostrophe begins contractions, which end words in o200k; there marks belong to letters, and / to line breaks after marks.
#pragma once

#include <string_view>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/word_pattern.h"

namespace trireme {

enum class TextForm : uint8_t { as_it_is, nfc };

class TextCutter {
 public:
  // No cut touches one of `added` or, in the text as `form` has it, of `normalized`, which must outlive the cutter, nor a
  // character that this form changes.
  TextCutter(WordPattern pattern, TextForm form, const AddedTokenFinder& added, const AddedTokenFinder& normalized);

  // The last safe place in `text`, which continues after its end; 0: there is none. The first `searched` bytes were found to
  // have none before.
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
