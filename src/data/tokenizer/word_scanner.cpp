#include "data/tokenizer/word_scanner.h"

namespace trireme {

const uint8_t* space_end(const TextView& text, const uint8_t* at, FinalSpace final_space) {
  const uint8_t* last = at;           // the last character
  const uint8_t* line_end = nullptr;  // after the last line break
  const uint8_t* end = at;
  for (ScannedChar next = char_at(text, end); next.is(kSpace); next = char_at(text, end)) {
    last = end;
    if (is_line_break(text, end)) line_end = end + 1;
    end += next.length;
  }
  if (end == text.end && final_space == FinalSpace::one_word) return end;
  if (line_end != nullptr) return line_end;
  return end == text.end || last == at ? end : last;
}

const uint8_t* contraction_end(const TextView& text, const uint8_t* at) {
  const auto left = static_cast<size_t>(text.end - at);
  if (left < 2 || *at != '\'') return at;
  const auto lower = [&](size_t i) { return i < left ? at[i] | 0x20 : 0; };
  switch (lower(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return at + 2;
    case 'r':
    case 'v':
      return lower(2) == 'e' ? at + 3 : at;
    case 'l':
      return lower(2) == 'l' ? at + 3 : at;
    default:
      // U+017F, which equals s if case is ignored.
      return left >= 3 && at[1] == 0xC5 && at[2] == 0xBF ? at + 3 : at;
  }
}

const uint8_t* marks_end(const TextView& text, const uint8_t* at, std::string_view tail) {
  const uint8_t* begin = at + (at < text.end && *at == ' ' ? 1 : 0);
  const uint8_t* end = skip_while(text, begin, [](ScannedChar next) { return next.is_text_of_no_word(); });
  if (end == begin) return at;
  while (end < text.end && tail.find(static_cast<char>(*end)) != std::string_view::npos) ++end;
  return end;
}

const uint8_t* numbers_end(const TextView& text, const uint8_t* at, int most) {
  for (ScannedChar next = char_at(text, at); most > 0 && next.is(kNumber); next = char_at(text, at), --most) at += next.length;
  return at;
}

namespace {

constexpr uint8_t kUpperPart = kUpper | kCaseless | kMark, kLowerPart = kLower | kCaseless | kMark;

// Returns the end of [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ or `at`. If no lower-case letter follows the
// first part, the match backtracks to the last character that the second part can have.
const uint8_t* lower_word_end(const TextView& text, const uint8_t* at) {
  const uint8_t* shared_end = at;  // after the last character that both parts can match
  const uint8_t* end = skip_while(text, at, [&, here = at](ScannedChar next) mutable {
    if (!next.is(kUpperPart)) return false;
    here += next.length;
    if (next.is(kLowerPart)) shared_end = here;
    return true;
  });
  if (!char_at(text, end).is(kLowerPart)) return shared_end;
  return skip_while(text, end, [](ScannedChar next) { return next.is(kLowerPart); });
}

// Returns the end of [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]* or `at`.
const uint8_t* upper_word_end(const TextView& text, const uint8_t* at) {
  const uint8_t* end = skip_while(text, at, [](ScannedChar next) { return next.is(kUpperPart); });
  return end == at ? at : skip_while(text, end, [](ScannedChar next) { return next.is(kLowerPart); });
}

}  // namespace

const uint8_t* o200k_word_end(const TextView& text, const uint8_t* at) {
  const ScannedChar first = char_at(text, at);
  if (first.is(kNumber)) return numbers_end(text, at, 3);
  const bool may_prefix = !first.is(kLetter) && !is_line_break(text, at);  // [^\r\n\p{L}\p{N}]?
  for (const auto word_end : {lower_word_end, upper_word_end}) {
    for (const uint8_t* begin : {at + first.length, at}) {
      if (begin != at && !may_prefix) continue;
      if (const uint8_t* end = word_end(text, begin); end != begin) return contraction_end(text, end);
    }
  }
  if (const uint8_t* end = marks_end(text, at, "\r\n/"); end != at) return end;
  return space_end(text, at, FinalSpace::cut_after_line_break);
}

}  // namespace trireme
