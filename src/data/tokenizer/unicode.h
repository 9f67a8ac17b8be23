// The Unicode data that tokenizers need: character classes (version 16.0), by which words are split, and the composed form NFC
// (version 9.0), which some vocabularies were learnt on. The versions are those of tiktoken and Hugging Face tokenizers; newer
// ones split a few words differently and reorder rare marks.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Bit flags, so that several classes are tested at once.
enum CharClass : uint8_t {
  kOther = 0,
  kUpper = 1,     // Lu, Lt
  kLower = 2,     // Ll
  kCaseless = 4,  // Lm, Lo
  kMark = 8,      // M
  kNumber = 16,   // N
  kSpace = 32,    // White_Space
  kLetter = kUpper | kLower | kCaseless,
};

class CharClassTable {
 public:
  static constexpr uint32_t kBlockBits = 7;

  static const CharClassTable& get();  // built at the first call

  uint8_t of(uint32_t code_point) const {
    return classes_[blocks_[code_point >> kBlockBits] + (code_point & ((1U << kBlockBits) - 1))];
  }

 private:
  CharClassTable();

  std::array<uint16_t, (0x110000 >> kBlockBits)> blocks_;  // where a block of 128 code points starts in classes_
  std::vector<uint8_t> classes_;                           // equal blocks are stored once
};

struct DecodedChar {
  uint32_t code_point = 0;
  uint32_t length = 0;  // in bytes; 0: invalid UTF-8
};

// Decodes the character at the start of `bytes`. Static, so that each instruction set compiles its own copy.
[[gnu::always_inline]] static inline DecodedChar decode_utf8(const uint8_t* bytes, uint64_t available) {
  const auto follows = [&](uint32_t i) { return (bytes[i] & 0xC0U) == 0x80U; };
  const uint32_t lead = bytes[0];
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xC2) return {};
  if (lead < 0xE0) {
    if (available < 2 || !follows(1)) return {};
    return {(lead & 0x1F) << 6 | (bytes[1] & 0x3FU), 2};
  }
  if (lead < 0xF0) {
    if (available < 3 || !follows(1) || !follows(2)) return {};
    const uint32_t code_point = (lead & 0x0F) << 12 | (bytes[1] & 0x3FU) << 6 | (bytes[2] & 0x3FU);
    if (code_point < 0x800 || (code_point >= 0xD800 && code_point < 0xE000)) return {};
    return {code_point, 3};
  }
  if (lead > 0xF4 || available < 4 || !follows(1) || !follows(2) || !follows(3)) return {};
  const uint32_t code_point = (lead & 0x07) << 18 | (bytes[1] & 0x3FU) << 12 | (bytes[2] & 0x3FU) << 6 | (bytes[3] & 0x3FU);
  if (code_point < 0x10000 || code_point > 0x10FFFF) return {};
  return {code_point, 4};
}

void append_utf8(uint32_t code_point, std::string& text);

// Composes to Normalization Form C. Returns false and leaves `composed` unchanged if the text is already composed.
bool compose_nfc(std::string_view text, std::string& composed);

}  // namespace trireme
