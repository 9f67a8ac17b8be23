#include "data/tokenizer/text_cut.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr size_t kLongestChar = 4;

bool is_break(char character) { return character == '\n' || character == '\r'; }
bool continues_char(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

}  // namespace

TextCutter::TextCutter(WordPattern pattern, TextForm form, const AddedTokenFinder& added, const AddedTokenFinder& normalized)
    : line_breaks_(line_breaks_of(pattern)),
      form_(form),
      added_(added),
      normalized_(normalized),
      classes_(CharClassTable::get()) {}

// A byte of invalid UTF-8 is a character without a class: it stays unchanged or becomes U+FFFD.
TextCutter::Char TextCutter::char_at(std::string_view text, size_t at) const {
  const DecodedChar decoded = decode_utf8(reinterpret_cast<const uint8_t*>(text.data()) + at, text.size() - at);
  if (decoded.length == 0) return {};
  return {classes_.of(decoded.code_point), decoded.length};
}

// A valid byte sequence is the same character at any position, so looking back finds the same characters as looking ahead.
TextCutter::Char TextCutter::char_before(std::string_view text, size_t at) const {
  for (size_t length = 1; length <= std::min(at, kLongestChar); ++length) {
    if (continues_char(text[at - length])) continue;
    const Char found = char_at(text.substr(0, at), at - length);
    return found.length == length ? found : Char{};
  }
  return {};
}

size_t TextCutter::last(std::string_view text, size_t searched) const {
  // The margin around a place must be inside the text.
  const size_t margin = kLongestChar + std::max(added_.longest(), normalized_.longest());
  if (text.size() <= margin) return 0;
  const size_t least = std::max<size_t>(1, searched - std::min(searched, margin));
  for (size_t at = text.size() - margin; at >= least; --at)
    if (is_safe(text, at)) return at;
  return 0;
}

bool TextCutter::is_safe(std::string_view text, size_t at) const {
  if (continues_char(text[at])) return false;
  const Char before = char_before(text, at), after = char_at(text, at);
  if (after.is(kMark) || !ends_word(text, at, before, after)) return false;
  if (form_ == TextForm::nfc && is_changed_around(text, at - before.length, at + after.length)) return false;
  return !touches_added(text, at);
}

// Returns whether normalization may change [begin, end) or the surroundings of an added token that is matched after it.
bool TextCutter::is_changed_around(std::string_view text, size_t begin, size_t end) const {
  begin -= std::min(begin, normalized_.longest());
  end = std::min(end + normalized_.longest(), text.size());
  std::string composed;
  return compose_nfc(text.substr(begin, end - begin), composed);
}

bool TextCutter::ends_word(std::string_view text, size_t at, const Char& before, const Char& after) const {
  if (before.is(kLetter)) return !after.is(kLetter) && text[at] != '\'';
  if (before.is(kNumber)) return !after.is(kNumber);
  if (before.is(kSpace)) return ends_line_breaks(text, at, after);
  if (after.is(kNumber)) return true;
  return after.is(kSpace) && (line_breaks_ == LineBreaks::are_white_space || !is_break(text[at]));
}

bool TextCutter::ends_line_breaks(std::string_view text, size_t at, const Char& after) const {
  if (!is_break(text[at - 1]) || is_break(text[at]) || text[at] == '/') return false;
  size_t begin = at - 1;
  if (line_breaks_ == LineBreaks::belong_to_marks)
    while (begin > 0 && is_break(text[begin - 1])) --begin;
  // After an added token new words start, possibly with a space that is not in the text.
  if (begin == 0 || touches_added(text, begin)) return false;
  const Char first = char_before(text, begin);
  if (line_breaks_ == LineBreaks::belong_to_marks && first.is_other()) return true;
  return begin == at - 1 && text[begin] == '\n' && !first.is(kSpace) && !after.is(kSpace);
}

}  // namespace trireme
