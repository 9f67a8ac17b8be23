// The contents of JSON strings: runs of literal bytes, and escapes.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#ifdef __SSE2__
  #include <emmintrin.h>
#endif

namespace trireme::prepare {

inline constexpr size_t kChunk = 16;

inline bool ends_run(char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; }

// Copies bytes up to the first quote, backslash or control character and returns their number. May write kChunk bytes more. Sets
// `high` if one of the bytes is 128 or more.
struct Run {
  size_t length = 0;
  bool high = false;
};

enum class Copy : uint8_t { no, yes };

template <Copy copy>
Run scan_run(const char* from, const char* end, [[maybe_unused]] char* to) {
  Run run;
#ifdef __SSE2__
  const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), last_control = _mm_set1_epi8(0x1f);
  while (static_cast<size_t>(end - from) - run.length >= kChunk) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + run.length));
    if constexpr (copy == Copy::yes) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + run.length), bytes);
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, last_control), bytes);
    const __m128i special = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)), control);
    const auto stops = static_cast<uint32_t>(_mm_movemask_epi8(special));
    const auto high = static_cast<uint32_t>(_mm_movemask_epi8(bytes));
    if (stops != 0) {
      const int count = std::countr_zero(stops);
      run.high |= (high & ((1U << count) - 1)) != 0;
      run.length += static_cast<size_t>(count);
      return run;
    }
    run.high |= high != 0;
    run.length += kChunk;
  }
#endif
  for (; from + run.length < end && !ends_run(from[run.length]); ++run.length) {
    if constexpr (copy == Copy::yes) to[run.length] = from[run.length];
    run.high |= (from[run.length] & 0x80) != 0;
  }
  return run;
}

constexpr std::array<int8_t, 256> make_hex_digits() {
  std::array<int8_t, 256> digits{};
  for (int8_t& digit : digits) digit = -1;
  for (size_t i = 0; i < 10; ++i) digits['0' + i] = static_cast<int8_t>(i);
  for (size_t i = 0; i < 6; ++i) digits['a' + i] = digits['A' + i] = static_cast<int8_t>(10 + i);
  return digits;
}
inline constexpr std::array<int8_t, 256> kHexDigits = make_hex_digits();

constexpr std::array<char, 256> make_escapes() {
  std::array<char, 256> escapes{};
  constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
  for (size_t i = 0; i < kNames.size(); ++i) escapes[static_cast<unsigned char>(kNames[i])] = kValues[i];
  return escapes;
}
inline constexpr std::array<char, 256> kEscapes = make_escapes();  // 0: not a one-letter escape

inline char* put_code_point(uint32_t c, char* to) {
  if (c < 0x80) {
    *to++ = static_cast<char>(c);
  } else if (c < 0x800) {
    *to++ = static_cast<char>(0xC0 | c >> 6);
    *to++ = static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    *to++ = static_cast<char>(0xE0 | c >> 12);
    *to++ = static_cast<char>(0x80 | (c >> 6 & 0x3F));
    *to++ = static_cast<char>(0x80 | (c & 0x3F));
  } else {
    *to++ = static_cast<char>(0xF0 | c >> 18);
    *to++ = static_cast<char>(0x80 | (c >> 12 & 0x3F));
    *to++ = static_cast<char>(0x80 | (c >> 6 & 0x3F));
    *to++ = static_cast<char>(0x80 | (c & 0x3F));
  }
  return to;
}

inline constexpr uint32_t kReplacement = 0xFFFD;

}  // namespace trireme::prepare
