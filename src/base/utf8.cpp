#include "base/utf8.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace trireme {
namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

struct Character {
  size_t length;  // of the character, or of a truncated character at the end
  bool valid;
};

// The lead byte gives the number of continuation bytes and, in four cases, restricts the first of them: Unicode table 3-7.
Character character_at(const unsigned char* at, size_t left) {
  const unsigned char lead = at[0];
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (left < 2 || at[1] < low || at[1] > high) return {1, false};
  for (size_t i = 2; i < length; ++i)
    if (i >= left || !is_continuation(at[i])) return {i, false};
  return {length, true};
}

}  // namespace

size_t valid_utf8_prefix(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t at = 0;
  while (at < text.size()) {
    if (uint64_t eight = 0; text.size() - at >= sizeof(eight)) {
      std::memcpy(&eight, bytes + at, sizeof(eight));
      if ((eight & 0x8080808080808080U) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    const Character character = character_at(bytes + at, text.size() - at);
    if (!character.valid) return at;
    at += character.length;
  }
  return at;
}

void require_utf8(std::string_view text, const std::string& name) {
  const size_t at = std::min(valid_utf8_prefix(text), text.find('\0'));
  if (at >= text.size()) return;
  const auto byte = static_cast<unsigned char>(text[at]);
  throw UserError("{}: the byte 0x{:02x} {}; {}", name, byte, byte == 0 ? "cannot be part of a setting" : "is not UTF-8",
                  byte == 0 ? "remove it" : "use UTF-8, for a file through a link with such a name");
}

int64_t replace_invalid_utf8(std::string_view text, std::string& out) {
  out.clear();
  int64_t replaced = 0;
  for (;;) {
    const size_t valid = valid_utf8_prefix(text);
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return replaced;
    text.remove_prefix(character_at(reinterpret_cast<const unsigned char*>(text.data()), text.size()).length);
    out += "\xEF\xBF\xBD";
    ++replaced;
  }
}

std::string as_utf8(std::string_view text) {
  std::string repaired;
  replace_invalid_utf8(text, repaired);
  return repaired;
}

}  // namespace trireme
