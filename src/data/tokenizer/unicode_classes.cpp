#include <map>

#include "data/tokenizer/unicode.h"

namespace trireme {
namespace {

struct Range {
  uint32_t first, last;
  uint8_t kind;
};

constexpr uint8_t upper = kUpper, lower = kLower, caseless = kCaseless, mark = kMark, number = kNumber, space = kSpace;

#define RANGE(first, last, kind) Range{first, last, kind},
constexpr Range kRanges[] = {
#include "data/tokenizer/unicode_ranges.inc"
};
#undef RANGE

}  // namespace

CharClassTable::CharClassTable() : blocks_{} {
  constexpr size_t kBlock = 1U << kBlockBits;
  std::vector<uint8_t> all(0x110000, kOther);
  for (const Range& range : kRanges) std::fill(all.begin() + range.first, all.begin() + range.last + 1, range.kind);
  std::map<std::string_view, uint16_t> known;
  for (size_t block = 0; block < blocks_.size(); ++block) {
    const uint8_t* classes = &all[block * kBlock];
    const auto [place, is_new] = known.try_emplace({reinterpret_cast<const char*>(classes), kBlock}, classes_.size());
    if (is_new) classes_.insert(classes_.end(), classes, classes + kBlock);
    blocks_[block] = place->second;
  }
}

const CharClassTable& CharClassTable::get() {
  static const CharClassTable table;
  return table;
}

void append_utf8(uint32_t code_point, std::string& text) {
  const auto append = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto append_following = [&](uint32_t shift) { append(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) {
    append(code_point);
  } else if (code_point < 0x800) {
    append(0xC0 | code_point >> 6);
    append_following(0);
  } else if (code_point < 0x10000) {
    append(0xE0 | code_point >> 12);
    append_following(6);
    append_following(0);
  } else {
    append(0xF0 | code_point >> 18);
    append_following(12);
    append_following(6);
    append_following(0);
  }
}

namespace {

// How many bytes at the beginning of a broken sequence could have begun a character: they are replaced together.
size_t broken_length(const uint8_t* bytes, size_t available) {
  const uint8_t lead = bytes[0];
  if (lead < 0xC2 || lead > 0xF4 || available < 2) return 1;
  uint8_t low = 0x80, high = 0xBF;  // of the second byte: neither overlong, nor a surrogate, nor too large
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  if (bytes[1] < low || bytes[1] > high) return 1;
  const size_t whole = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  size_t length = 2;
  while (length < whole && length < available && (bytes[length] & 0xC0) == 0x80) ++length;
  return length;
}

}  // namespace

int64_t repair_utf8(std::string_view text, std::string& repaired) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  int64_t replaced = 0;
  size_t copied = 0;
  for (size_t at = 0; at < text.size();) {
    if (text.size() - at >= 8) {
      uint64_t eight = 0;
      __builtin_memcpy(&eight, bytes + at, 8);
      if ((eight & 0x8080808080808080U) == 0) {
        at += 8;
        continue;
      }
    }
    if (const DecodedChar decoded = decode_utf8(bytes + at, text.size() - at); decoded.length != 0) {
      at += decoded.length;
      continue;
    }
    if (replaced++ == 0) repaired.clear();
    repaired.append(text, copied, at - copied).append("\xEF\xBF\xBD");
    at += broken_length(bytes + at, text.size() - at);
    copied = at;
  }
  if (replaced != 0) repaired.append(text, copied);
  return replaced;
}

}  // namespace trireme
