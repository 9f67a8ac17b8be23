#include "evaluate/python_text.h"

#include "data/tokenizer/unicode.h"

namespace trireme {
namespace {

struct Character {
  uint32_t code_point = 0;
  size_t length = 1;
};

// A byte that is not UTF-8 counts as a character of its own.
Character character_at(std::string_view text, size_t at) {
  const DecodedChar decoded = decode_utf8(reinterpret_cast<const uint8_t*>(text.data()) + at, text.size() - at);
  if (decoded.length == 0) return {0xFFFD, 1};
  return {decoded.code_point, decoded.length};
}

bool is_space(uint32_t code_point) {
  return (code_point >= 0x1C && code_point <= 0x1F) || (CharClassTable::get().of(code_point) & kSpace) != 0;
}

struct CaseRange {
  uint32_t first_upper, last_upper;
  uint32_t distance;  // to the lower case
  uint32_t step = 1;  // 2: upper and lower case take turns
};

// ASCII, Latin, Greek and Cyrillic letters.
constexpr CaseRange kCases[] = {{'A', 'Z', 32},       {0xC0, 0xD6, 32},       {0xD8, 0xDE, 32},      {0x100, 0x12E, 1, 2},
                                {0x132, 0x136, 1, 2}, {0x139, 0x147, 1, 2},   {0x14A, 0x176, 1, 2},  {0x179, 0x17D, 1, 2},
                                {0x391, 0x3A1, 32},   {0x3A3, 0x3AB, 32},     {0x400, 0x40F, 80},    {0x410, 0x42F, 32},
                                {0x460, 0x480, 1, 2}, {0x1E00, 0x1E94, 1, 2}, {0x1EA0, 0x1EFE, 1, 2}};

uint32_t lower_case(uint32_t c) {
  for (const CaseRange& range : kCases)
    if (c >= range.first_upper && c <= range.last_upper && (c - range.first_upper) % range.step == 0) return c + range.distance;
  return c;
}

uint32_t upper_case(uint32_t c) {
  for (const CaseRange& range : kCases)
    if (c >= range.first_upper + range.distance && c <= range.last_upper + range.distance &&
        (c - range.distance - range.first_upper) % range.step == 0)
      return c - range.distance;
  return c;
}

}  // namespace

std::string_view python_rstrip(std::string_view text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    at += c.length;
    if (!is_space(c.code_point)) end = at;
  }
  return text.substr(0, end);
}

std::string python_strip(std::string_view text) {
  text = python_rstrip(text);
  while (!text.empty()) {
    const Character c = character_at(text, 0);
    if (!is_space(c.code_point)) break;
    text.remove_prefix(c.length);
  }
  return std::string(text);
}

std::string python_capitalize(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    const uint32_t other = at == 0 ? upper_case(c.code_point) : lower_case(c.code_point);
    if (other == c.code_point)
      out += text.substr(at, c.length);
    else
      append_utf8(other, out);
    at += c.length;
  }
  return out;
}

int64_t python_length(std::string_view text) {
  int64_t count = 0;
  for (size_t at = 0; at < text.size(); at += character_at(text, at).length) ++count;
  return count;
}

int64_t python_word_count(std::string_view text) {
  int64_t count = 1;  // also of an empty text; white space at an end makes an empty part
  bool in_space = false;
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    at += c.length;
    const bool space = is_space(c.code_point);
    if (space && !in_space) ++count;
    in_space = space;
  }
  return count;
}

std::string python_replace(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(text);
  std::string out;
  size_t at = 0;
  for (size_t found = text.find(from); found != text.npos; found = text.find(from, at)) {
    out += text.substr(at, found - at);
    out += to;
    at = found + from.size();
  }
  out += text.substr(at);
  return out;
}

std::string remove_between(std::string_view text, char open, char close) {
  std::string out;
  size_t close_at = 0, line_end = 0;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == open) {
      close_at = text.find(close, at + 1);
      line_end = std::min(text.find('\n', at), text.size());
      if (close_at < line_end) {
        at = close_at + 1;
        continue;
      }
    }
    out += text[at++];
  }
  return out;
}

std::string strip_between(std::string_view text, char open, char close) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t begin = text.find(open, at);
    const size_t end = begin == text.npos ? text.npos : text.find(close, begin + 1);
    if (end == text.npos) break;
    out += text.substr(at, begin + 1 - at);
    out += python_strip(text.substr(begin + 1, end - begin - 1));
    out += close;
    at = end + 1;
  }
  out += text.substr(at);
  return out;
}

}  // namespace trireme
