// A trie over bytes that finds the pieces of a vocabulary at the start of a text.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

class PieceTrie {
 public:
  static constexpr int32_t kNone = -1;

  // Pieces and their ids. No piece may be empty or repeated.
  explicit PieceTrie(std::vector<std::pair<std::string_view, int32_t>> pieces = {});

  bool empty() const { return nodes_.size() <= 1; }
  size_t longest() const { return longest_; }  // longest piece, in bytes

  // Calls found(length, id) for every piece that is a prefix of `text`, the shortest first.
  template <class Found>
  void each_prefix(std::string_view text, const Found& found) const {
    uint32_t at = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      const Node& node = nodes_[at];
      const uint64_t word = node.bytes[byte >> 6], bit = uint64_t{1} << (byte & 63);
      if ((word & bit) == 0) return;
      at = node.first_child + node.before[byte >> 6] + static_cast<uint32_t>(std::popcount(word & (bit - 1)));
      if (nodes_[at].id != kNone) found(i + 1, nodes_[at].id);
    }
  }

  // Returns the length of the longest piece that is a prefix of `text`, or 0.
  size_t longest_prefix(std::string_view text) const {
    size_t longest = 0;
    each_prefix(text, [&](size_t length, int32_t) { longest = length; });
    return longest;
  }

 private:
  struct Node {
    std::array<uint64_t, 4> bytes{};  // bitmap of the bytes with a child
    std::array<uint8_t, 4> before{};  // number of bits set in the words of `bytes` before this one
    uint32_t first_child = 0;         // children are adjacent, in byte order
    int32_t id = kNone;               // of the piece that ends here
  };

  std::vector<Node> nodes_;
  size_t longest_ = 0;
};

}  // namespace trireme
