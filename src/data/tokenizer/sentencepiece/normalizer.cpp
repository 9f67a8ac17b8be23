#include "data/tokenizer/sentencepiece/normalizer.h"

#include <algorithm>

#include "data/tokenizer/unicode.h"

namespace trireme {

size_t character_length(std::string_view text) {
  constexpr uint8_t kLengths[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};  // [high half of the first byte]
  return std::min<size_t>(kLengths[static_cast<uint8_t>(text[0]) >> 4], text.size());
}

Normalizer::Normalizer(const std::string& source, const NormalizerRules& rules, const PieceTrie& user_defined)
    : rules_(rules),
      user_defined_(user_defined),
      charsmap_(source, rules.precompiled_charsmap),
      space_(rules.escape_whitespaces ? kSpaceSymbol : " "),
      longest_step_(charsmap_.longest()) {
  constexpr size_t kLongestCharacter = 4;
  if (longest_step_) longest_step_ = std::max({*longest_step_, user_defined.longest(), kLongestCharacter});
}

Normalizer::Step Normalizer::step(std::string_view text) const {
  if (!user_defined_.empty())
    if (const size_t length = user_defined_.longest_prefix(text); length != 0) return {length, text.substr(0, length)};
  if (!charsmap_.empty())
    if (const CharsMap::Rule rule = charsmap_.find(text); rule.length != 0) return {rule.length, rule.replacement};
  const DecodedChar decoded = decode_utf8(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  if (decoded.length == 0) return {1, "\xEF\xBF\xBD"};
  return {decoded.length, text.substr(0, decoded.length)};
}

void Normalizer::append(std::string_view replaced, std::string& normalized) const {
  for (const char byte : replaced) {
    if (byte == ' ')
      normalized += space_;
    else
      normalized += byte;
  }
}

void Normalizer::normalize(std::string_view text, std::string& normalized) const {
  normalized.clear();
  const bool removes_extra_spaces = rules_.remove_extra_whitespaces;
  while (removes_extra_spaces && !text.empty()) {
    const Step next = step(text);
    if (next.replaced != " ") break;
    text.remove_prefix(next.length);
  }
  if (text.empty()) return;
  if (rules_.add_dummy_prefix && !rules_.treat_whitespace_as_suffix) normalized += space_;
  append_steps(text, removes_extra_spaces, normalized);
}

void Normalizer::normalize_rest(std::string_view text, std::string& normalized) const {
  normalized.clear();
  append_steps(text, false, normalized);
}

void Normalizer::append_steps(std::string_view text, bool after_space, std::string& normalized) const {
  const bool removes_extra_spaces = rules_.remove_extra_whitespaces;
  while (!text.empty()) {
    Step next = step(text);
    if (after_space) next.replaced.remove_prefix(std::min(next.replaced.find_first_not_of(' '), next.replaced.size()));
    append(next.replaced, normalized);
    if (!next.replaced.empty()) after_space = removes_extra_spaces && next.replaced.ends_with(' ');
    text.remove_prefix(next.length);
  }
  while (removes_extra_spaces && normalized.ends_with(space_)) normalized.resize(normalized.size() - space_.size());
  if (rules_.add_dummy_prefix && rules_.treat_whitespace_as_suffix) normalized += space_;
}

}  // namespace trireme
