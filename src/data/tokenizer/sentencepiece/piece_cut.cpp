#include "data/tokenizer/sentencepiece/piece_cut.h"

#include <algorithm>

#include "data/tokenizer/unicode.h"

namespace trireme {
namespace {

bool continues_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

size_t decoded_length(std::string_view text) {
  return decode_utf8(reinterpret_cast<const uint8_t*>(text.data()), text.size()).length;
}

// Returns the bytes of the character that ends at `at`, or 0.
size_t length_before(std::string_view text, size_t at) {
  constexpr size_t kLongest = 4;
  for (size_t length = 1; length <= std::min(at, kLongest); ++length)
    if (decoded_length(text.substr(at - length, length)) == length) return length;
  return 0;
}

// Returns whether [begin, end) is valid UTF-8, except for partial characters at its ends.
bool is_utf8_within(std::string_view text, size_t begin, size_t end) {
  constexpr size_t kLongest = 4;
  for (size_t skipped = 1; skipped < kLongest && begin < end && continues_character(text[begin]); ++skipped) ++begin;
  while (begin + kLongest <= end) {
    const size_t length = decoded_length(text.substr(begin));
    if (length == 0) return false;
    begin += length;
  }
  return true;
}

std::string_view last_character(std::string_view text) { return text.substr(text.size() - length_before(text, text.size())); }

}  // namespace

// If a space is appended to a text, every cut would add one, so there are no cuts.
PieceCutter::PieceCutter(const SentencePieceModel& model, const PieceVocabulary& vocabulary, const Normalizer& normalizer,
                         const PieceBorders& borders, const AddedTokenFinder& specials)
    : model_(model),
      vocabulary_(vocabulary),
      normalizer_(normalizer),
      borders_(borders),
      specials_(specials),
      has_cuts_(normalizer.longest_step().has_value() &&
                !(model.normalizer.add_dummy_prefix && model.normalizer.treat_whitespace_as_suffix)),
      longest_step_(normalizer.longest_step().value_or(0)),
      margin_(std::max(longest_step_, specials.longest())) {}

size_t PieceCutter::last(std::string_view text, size_t searched) const {
  // The margin around a place must be inside the text.
  if (!has_cuts_ || text.size() <= margin_) return 0;
  const size_t least = std::max<size_t>(1, searched - std::min(searched, margin_));
  for (size_t at = text.size() - margin_; at >= least; --at)
    if (is_safe(text, at)) return at;
  return 0;
}

bool PieceCutter::is_safe(std::string_view text, size_t at) const {
  const size_t length = length_before(text, at);
  if (length == 0 || decoded_length(text.substr(at)) == 0) return false;
  const std::string_view left = normalizer_.step(text.substr(at - length)).replaced;
  const std::string_view right = normalizer_.step(text.substr(at)).replaced;
  if (left.empty() || right.empty() || left.ends_with(' ') || left.ends_with(kSpaceSymbol)) return false;
  const std::string_view before = last_character(left);
  const std::string_view after = right[0] == ' ' ? normalizer_.space() : right.substr(0, character_length(right));
  if (before.empty() || !borders_.is_between(before, after)) return false;
  if (!model_.byte_fallback && !is_known(before) && !is_known(after)) return false;
  return is_step(text, at - length, at) && !specials_.touches(text, at);
}

// Returns whether [begin, end) is a step of the normalizer wherever the text starts. Invalid UTF-8 is replaced before
// normalization, so the steps around it are unknown.
bool PieceCutter::is_step(std::string_view text, size_t begin, size_t end) const {
  size_t first = begin - std::min(begin, longest_step_);
  if (!is_utf8_within(text, first, std::min(end + longest_step_, text.size()))) return false;
  if (normalizer_.step(text.substr(begin)).length != end - begin) return false;
  for (; first < begin; ++first)
    if (first + normalizer_.step(text.substr(first)).length > begin) return false;
  return true;
}

// Returns whether a character always becomes part of a piece of the vocabulary.
bool PieceCutter::is_known(std::string_view character) const {
  const auto id = vocabulary_.find(character);
  return id && vocabulary_.type(*id) != SentencePiece::Type::unknown;
}

}  // namespace trireme
