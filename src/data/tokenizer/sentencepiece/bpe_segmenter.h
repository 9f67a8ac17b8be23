// Segments text with a BPE model: the adjacent pair whose joint piece has the highest score merges, until no pair does.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/sentencepiece/vocabulary.h"

namespace trireme {

// Finds borders: places between two characters that no piece can span. The parts between borders are in effect words, and they
// repeat.
class PieceBorders {
 public:
  explicit PieceBorders(const PieceVocabulary& vocabulary);

  // Returns whether the tokens before and after the place between these two characters are independent.
  bool is_between(std::string_view left, std::string_view right) const { return has_borders_ && !joined_[place_of(left, right)]; }

  // Returns the length of the first part of `text`: its tokens do not depend on what follows.
  size_t part_of(std::string_view text) const;

 private:
  static constexpr size_t kBits = size_t{1} << 20;
  static size_t place_of(std::string_view left, std::string_view right);

  bool has_borders_ = true;
  std::vector<bool> joined_;  // [hash of two characters] some piece has them adjacent, or has two others with the same hash
};

// For one thread; caches words and reuses its memory.
class BpeSegmenter {
 public:
  // Both must outlive the segmenter.
  BpeSegmenter(const PieceVocabulary& vocabulary, const PieceBorders& borders) : vocabulary_(vocabulary), borders_(borders) {}

  // Appends the tokens of a normalized text. Takes n log n for a part of n bytes without a border.
  void segment(std::string_view text, std::vector<int32_t>& tokens);

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  struct Symbol {
    uint32_t begin = 0, length = 0;  // in the part; length 0: joined to the previous symbol
    uint32_t previous = kNone, next = kNone;
    bool is_frozen = false;  // user-defined: never joined to other symbols
  };
  struct Pair {
    float score = 0;
    uint32_t left = 0, right = 0, length = 0;
    bool operator<(const Pair& other) const { return score != other.score ? score < other.score : left > other.left; }
  };
  struct Halves {
    std::string_view left, right;
  };

  const std::vector<int32_t>& tokens_of(std::string_view part);
  void merge(std::string_view part, std::vector<int32_t>& tokens);
  void split_into_symbols(std::string_view part);
  void join(const Pair& pair);
  void add_pair(uint32_t left, uint32_t right);
  void append(std::string_view piece, std::vector<int32_t>& tokens);

  const PieceVocabulary& vocabulary_;
  const PieceBorders& borders_;
  std::string_view part_;
  std::vector<Symbol> symbols_;
  std::vector<Pair> heap_;
  std::unordered_map<int32_t, Halves> halves_;  // of unused pieces, which are split again
  std::vector<std::string_view> apart_;

  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, std::vector<int32_t>, Hash, std::equal_to<>> known_;
  std::vector<int32_t> fresh_;
};

}  // namespace trireme
