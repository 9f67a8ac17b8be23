// Normalization Form C: decomposes characters, sorts their combining marks, and composes them again.
#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "data/tokenizer/unicode.h"

namespace trireme {
namespace {

struct Composition {
  uint32_t composed, first, second;  // second is 0 if there is none
  bool is_recomposed;
};
struct Combining {
  uint32_t code_point;
  uint8_t order;
};

#define COMBINING(code_point, order)
#define COMPOSITION(composed, first, second, recomposes) Composition{composed, first, second, recomposes != 0},
constexpr Composition kCompositions[] = {
#include "data/tokenizer/unicode_compositions.inc"
};
#undef COMBINING
#undef COMPOSITION
#define COMPOSITION(composed, first, second, recomposes)
#define COMBINING(code_point, order) Combining{code_point, order},
constexpr Combining kCombining[] = {
#include "data/tokenizer/unicode_compositions.inc"
};
#undef COMBINING
#undef COMPOSITION

// Hangul syllables are composed by arithmetic: leading consonant, vowel, trailing consonant.
constexpr uint32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTrails = 0x11A7;
constexpr uint32_t kLeadCount = 19, kVowelCount = 21, kTrailCount = 28, kSyllableCount = kLeadCount * kVowelCount * kTrailCount;

constexpr uint32_t kRawByte = 0x110000;  // plus the byte: invalid UTF-8 passes through

struct Tables {
  std::unordered_map<uint32_t, const Composition*> parts;  // by composed
  std::unordered_map<uint64_t, uint32_t> composed;         // by first and second
  std::unordered_map<uint32_t, uint8_t> order;
  std::vector<bool> suspicious;  // [code point] text with it may change

  Tables() : suspicious(kRawByte) {
    for (const Composition& row : kCompositions) {
      parts.emplace(row.composed, &row);
      suspicious[row.composed] = suspicious[row.composed] || !row.is_recomposed;
      if (!row.is_recomposed) continue;
      composed.emplace(uint64_t{row.first} << 32 | row.second, row.composed);
      suspicious[row.second] = true;
    }
    for (const Combining& row : kCombining) {
      order.emplace(row.code_point, row.order);
      suspicious[row.code_point] = true;
    }
    for (uint32_t i = 0; i < kVowelCount; ++i) suspicious[kVowels + i] = true;
    for (uint32_t i = 1; i < kTrailCount; ++i) suspicious[kTrails + i] = true;
  }

  uint8_t order_of(uint32_t code_point) const {
    const auto found = order.find(code_point);
    return found == order.end() ? 0 : found->second;
  }
};

const Tables& tables() {
  static const Tables made;
  return made;
}

bool is_composed(std::string_view text, const Tables& tables) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t at = 0; at < text.size();) {
    if (bytes[at] < 0x80) {
      ++at;
      continue;
    }
    const DecodedChar decoded = decode_utf8(bytes + at, text.size() - at);
    if (tables.suspicious[decoded.code_point]) return false;
    at += std::max(decoded.length, 1U);
  }
  return true;
}

void append_decomposed(uint32_t code_point, const Tables& tables, std::vector<uint32_t>& out) {
  if (code_point >= kSyllables && code_point < kSyllables + kSyllableCount) {
    const uint32_t syllable = code_point - kSyllables;
    out.push_back(kLeads + syllable / (kVowelCount * kTrailCount));
    out.push_back(kVowels + syllable / kTrailCount % kVowelCount);
    if (syllable % kTrailCount != 0) out.push_back(kTrails + syllable % kTrailCount);
    return;
  }
  const auto found = tables.parts.find(code_point);
  if (found == tables.parts.end()) {
    out.push_back(code_point);
    return;
  }
  append_decomposed(found->second->first, tables, out);
  if (found->second->second != 0) append_decomposed(found->second->second, tables, out);
}

std::vector<uint32_t> decompose(std::string_view text, const Tables& tables) {
  std::vector<uint32_t> out;
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t at = 0; at < text.size();) {
    const DecodedChar decoded = decode_utf8(bytes + at, text.size() - at);
    if (decoded.length == 0)
      out.push_back(kRawByte + bytes[at]);
    else
      append_decomposed(decoded.code_point, tables, out);
    at += std::max(decoded.length, 1U);
  }
  return out;
}

// Sorts adjacent combining marks by their classes.
void sort_marks(std::vector<uint32_t>& characters, const Tables& tables) {
  for (size_t begin = 0; begin < characters.size();) {
    size_t end = begin;
    while (end < characters.size() && tables.order_of(characters[end]) != 0) ++end;
    std::stable_sort(characters.begin() + static_cast<ptrdiff_t>(begin), characters.begin() + static_cast<ptrdiff_t>(end),
                     [&](uint32_t a, uint32_t b) { return tables.order_of(a) < tables.order_of(b); });
    begin = end + 1;
  }
}

// Returns the composition of two characters, or 0.
uint32_t compose_pair(uint32_t first, uint32_t second, const Tables& tables) {
  if (first >= kLeads && first < kLeads + kLeadCount && second >= kVowels && second < kVowels + kVowelCount)
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTrailCount;
  if (first >= kSyllables && first < kSyllables + kSyllableCount && (first - kSyllables) % kTrailCount == 0 && second > kTrails &&
      second < kTrails + kTrailCount)
    return first + (second - kTrails);
  const auto found = tables.composed.find(uint64_t{first} << 32 | second);
  return found == tables.composed.end() ? 0 : found->second;
}

void compose(std::vector<uint32_t>& characters, const Tables& tables) {
  size_t kept = 0, starter = characters.size();  // starter: the last character of class 0, if any
  for (size_t i = 0; i < characters.size(); ++i) {
    const uint32_t next = characters[i];
    const uint8_t order = tables.order_of(next);
    if (starter < kept) {
      // Only marks of a lower class may be between the starter and this mark.
      const bool adjacent = kept == starter + 1;
      const bool open = adjacent || (tables.order_of(characters[kept - 1]) < order);
      if (const uint32_t together = open ? compose_pair(characters[starter], next, tables) : 0; together != 0) {
        characters[starter] = together;
        continue;
      }
    }
    if (order == 0) starter = kept;
    characters[kept++] = next;
  }
  characters.resize(kept);
}

}  // namespace

bool compose_nfc(std::string_view text, std::string& composed) {
  const Tables& unicode = tables();
  if (is_composed(text, unicode)) return false;
  std::vector<uint32_t> characters = decompose(text, unicode);
  sort_marks(characters, unicode);
  compose(characters, unicode);
  composed.clear();
  for (const uint32_t character : characters) {
    if (character >= kRawByte)
      composed.push_back(static_cast<char>(character - kRawByte));
    else
      append_utf8(character, composed);
  }
  return true;
}

}  // namespace trireme
