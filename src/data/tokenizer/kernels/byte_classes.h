// Classifies a block of 64 bytes.
#pragma once

#if defined(__AVX2__)
  #include <immintrin.h>
#endif

#include "data/tokenizer/kernels/word_kernels.h"

namespace trireme {
namespace {

struct AsciiClasses {
  uint64_t letter, number, blank, space, apostrophe, wide, lead;  // wide: not ASCII; lead: may start a wide character
};

#if defined(__AVX512BW__)

[[gnu::always_inline]] inline AsciiClasses classify_ascii(const uint8_t* bytes) {
  const __m512i block = _mm512_loadu_si512(bytes);
  const auto in_range = [](__m512i values, char first, char count) {
    return _mm512_cmplt_epu8_mask(_mm512_sub_epi8(values, _mm512_set1_epi8(first)), _mm512_set1_epi8(count));
  };
  AsciiClasses classes{};
  classes.letter = in_range(_mm512_or_si512(block, _mm512_set1_epi8(0x20)), 'a', 26);
  classes.number = in_range(block, '0', 10);
  classes.blank = _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8(' '));
  classes.space = in_range(block, '\t', 5) | classes.blank;
  classes.apostrophe = _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8('\''));
  classes.wide = _mm512_movepi8_mask(block);
  classes.lead = _mm512_cmpge_epu8_mask(block, _mm512_set1_epi8(static_cast<char>(0xC2)));
  return classes;
}

// Writes the indices of the set bits of `mask`, plus `base`; returns their number. May write up to sixteen entries more.
[[gnu::always_inline]] inline size_t write_bits(uint64_t mask, uint32_t base, uint32_t* out) {
  __m512i numbers = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                     _mm512_set1_epi32(static_cast<int>(base)));
  size_t count = 0;
  for (int part = 0; part < 4; ++part) {
    const auto bits = static_cast<uint16_t>(mask >> 16 * part);
    _mm512_storeu_si512(out + count, _mm512_maskz_compress_epi32(bits, numbers));
    numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(16));
    count += static_cast<size_t>(__builtin_popcount(bits));
  }
  return count;
}

#else

  #if defined(__AVX2__)

[[gnu::always_inline]] inline AsciiClasses classify_ascii(const uint8_t* bytes) {
  AsciiClasses classes{};
  for (int half = 1; half >= 0; --half) {
    const __m256i block = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + 32 * half));
    // A signed comparison after shifting the range to the minimum: AVX2 has no unsigned comparison.
    const auto in_range = [](__m256i values, char first, int count) {
      const __m256i moved = _mm256_sub_epi8(values, _mm256_set1_epi8(static_cast<char>(first - 128)));
      return _mm256_cmpgt_epi8(_mm256_set1_epi8(static_cast<char>(count - 128)), moved);
    };
    const auto shift_in = [](uint64_t& mask, __m256i selected) {
      mask = mask << 32 | static_cast<uint32_t>(_mm256_movemask_epi8(selected));
    };
    const __m256i blank = _mm256_cmpeq_epi8(block, _mm256_set1_epi8(' '));
    shift_in(classes.letter, in_range(_mm256_or_si256(block, _mm256_set1_epi8(0x20)), 'a', 26));
    shift_in(classes.number, in_range(block, '0', 10));
    shift_in(classes.blank, blank);
    shift_in(classes.space, _mm256_or_si256(in_range(block, '\t', 5), blank));
    shift_in(classes.apostrophe, _mm256_cmpeq_epi8(block, _mm256_set1_epi8('\'')));
    shift_in(classes.wide, block);
    shift_in(classes.lead, in_range(block, static_cast<char>(0xC2), 0x100 - 0xC2));
  }
  return classes;
}

  #else

[[gnu::always_inline]] inline AsciiClasses classify_ascii(const uint8_t* bytes) {
  AsciiClasses classes{};
  for (int i = 63; i >= 0; --i) {
    const uint32_t byte = bytes[i];
    const auto shift_in = [](uint64_t& mask, bool selected) { mask = mask << 1 | static_cast<uint64_t>(selected); };
    shift_in(classes.letter, (byte | 0x20U) - 'a' < 26);
    shift_in(classes.number, byte - '0' < 10);
    shift_in(classes.blank, byte == ' ');
    shift_in(classes.space, byte == ' ' || byte - '\t' < 5);
    shift_in(classes.apostrophe, byte == '\'');
    shift_in(classes.wide, byte >= 0x80);
    shift_in(classes.lead, byte >= 0xC2);
  }
  return classes;
}

  #endif

[[gnu::always_inline]] inline size_t write_bits(uint64_t mask, uint32_t base, uint32_t* out) {
  size_t count = 0;
  for (; mask != 0; mask &= mask - 1) out[count++] = base + static_cast<uint32_t>(__builtin_ctzll(mask));
  return count;
}

#endif

// The bits of a multi-byte character that starts at bit `i`: in this block and in the next.
struct WideBits {
  uint64_t here, spilled;
};
[[gnu::always_inline]] inline WideBits wide_bits(uint32_t i, uint32_t length) {
  const uint64_t bits = (uint64_t{1} << length) - 1;
  return {bits << i, i + length > 64 ? bits >> (64 - i) : 0};
}

// Classifies the block at `bytes`, which must be readable as a whole. Multi-byte characters are decoded only up to
// `end`, the end of the text.
[[gnu::always_inline]] inline ByteClasses classify(const uint8_t* bytes, const uint8_t* end, const CharClassTable& table,
                                                   uint64_t valid, ByteClasses& spilled) {
  const AsciiClasses ascii = classify_ascii(bytes);
  ByteClasses classes{.letter = ascii.letter | spilled.letter,
                      .number = ascii.number | spilled.number,
                      .space = ascii.space | spilled.space,
                      .blank = ascii.blank,
                      .apostrophe = ascii.apostrophe,
                      .one_byte = ~ascii.wide,
                      .valid = valid};
  spilled = {};
  for (uint64_t leads = ascii.lead & valid; leads != 0; leads &= leads - 1) {
    const auto i = static_cast<uint32_t>(__builtin_ctzll(leads));
    const DecodedChar decoded = decode_utf8(bytes + i, static_cast<uint64_t>(end - bytes) - i);
    const uint8_t kind = table.of(decoded.code_point);  // invalid bytes have code point 0, class "other"
    const WideBits bits = wide_bits(i, decoded.length);
    const uint64_t is_letter = (kind & kLetter) != 0 ? ~uint64_t{0} : 0;
    const uint64_t is_number = (kind & kNumber) != 0 ? ~uint64_t{0} : 0;
    classes.letter |= bits.here & is_letter;
    spilled.letter |= bits.spilled & is_letter;
    classes.number |= bits.here & is_number;
    spilled.number |= bits.spilled & is_number;
    if (kind != kSpace) [[likely]]
      continue;
    classes.space |= bits.here;
    spilled.space |= bits.spilled;
    const uint8_t* next = bytes + i + decoded.length;
    if (next < end && table.of(decode_utf8(next, static_cast<uint64_t>(end - next)).code_point) != kSpace)
      classes.last_wide |= uint64_t{1} << i;
  }
  return classes;
}

}  // namespace
}  // namespace trireme
