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

}  // namespace trireme
