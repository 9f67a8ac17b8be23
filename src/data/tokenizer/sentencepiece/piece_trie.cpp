#include "data/tokenizer/sentencepiece/piece_trie.h"

#include <algorithm>

namespace trireme {

// Built level by level: the pieces that share a node are adjacent in sorted order.
PieceTrie::PieceTrie(std::vector<std::pair<std::string_view, int32_t>> pieces) {
  std::ranges::sort(pieces);
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges{{0, pieces.size(), 0}};
  nodes_.emplace_back();
  for (size_t at = 0; at < ranges.size(); ++at) {
    auto [begin, end, depth] = ranges[at];
    longest_ = depth;  // the last level is the deepest
    Node node;
    if (begin < end && pieces[begin].first.size() == depth) node.id = pieces[begin++].second;
    node.first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = pieces[begin].first[depth];
      size_t next = begin;
      while (next < end && pieces[next].first[depth] == byte) ++next;
      node.bytes[static_cast<uint8_t>(byte) >> 6] |= uint64_t{1} << (static_cast<uint8_t>(byte) & 63);
      ranges.push_back({begin, next, depth + 1});
      nodes_.emplace_back();
      begin = next;
    }
    for (size_t i = 1; i < 4; ++i) node.before[i] = static_cast<uint8_t>(node.before[i - 1] + std::popcount(node.bytes[i - 1]));
    nodes_[at] = node;
  }
}

}  // namespace trireme
