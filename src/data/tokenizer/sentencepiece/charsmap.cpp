#include "data/tokenizer/sentencepiece/charsmap.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace trireme {
namespace {

// A unit of the double array in the layout of the darts-clone library.
bool has_value(uint32_t unit) { return ((unit >> 8) & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FF; }
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }

}  // namespace

CharsMap::CharsMap(const std::string& source, std::string_view blob) {
  if (blob.empty()) return;
  uint32_t bytes = 0;
  if (blob.size() > sizeof bytes) std::memcpy(&bytes, blob.data(), sizeof bytes);
  blob.remove_prefix(std::min(blob.size(), sizeof bytes));
  if (bytes == 0 || bytes > blob.size() || bytes % sizeof(uint32_t) != 0)
    throw UserError("{}: its normalization rules are damaged: a table of {} bytes in {}", source, bytes, blob.size());
  units_.resize(bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), blob.data(), bytes);
  replacements_ = blob.substr(bytes);
}

// Every index is checked before it is read: a damaged table yields other rules or none.
CharsMap::Rule CharsMap::find(std::string_view text) const {
  Rule longest;
  size_t at = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    at ^= byte;
    if (at >= units_.size() || label_of(units_[at]) != byte) break;
    const uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (has_value(unit) && at < units_.size()) longest = {i + 1, replacement_at(value_of(units_[at]))};
  }
  return longest;
}

// Walks the double array level by level. Texts with a common ending share nodes, so each node is visited once per level.
std::optional<size_t> CharsMap::longest() const {
  constexpr size_t kMost = 256;  // longer texts occur only in damaged tables, where a node may reach itself
  if (units_.empty()) return 0;
  size_t longest = 0;
  std::vector<size_t> level{offset_of(units_[0])}, next;
  for (size_t depth = 1; !level.empty(); ++depth) {
    if (depth > kMost) return std::nullopt;
    for (const size_t from : level)
      for (uint32_t byte = 0; byte < 256; ++byte) {
        const size_t at = from ^ byte;
        if (at >= units_.size() || label_of(units_[at]) != byte) continue;
        if (has_value(units_[at])) longest = depth;
        next.push_back(at ^ offset_of(units_[at]));
      }
    std::ranges::sort(next);
    next.erase(std::unique(next.begin(), next.end()), next.end());
    level.swap(next);
    next.clear();
  }
  return longest;
}

std::string_view CharsMap::replacement_at(uint32_t offset) const {
  if (offset >= replacements_.size()) return {};
  const std::string_view rest = std::string_view(replacements_).substr(offset);
  return rest.substr(0, rest.find('\0'));
}

}  // namespace trireme
