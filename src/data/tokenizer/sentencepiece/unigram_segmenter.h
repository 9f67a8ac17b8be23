// Segments text into the pieces of a unigram model with the greatest sum of scores.
#pragma once

#include <vector>

#include "data/tokenizer/sentencepiece/vocabulary.h"

namespace trireme {

// Shared by all threads.
class UnigramModel {
 public:
  explicit UnigramModel(const PieceVocabulary& vocabulary);

  const PieceVocabulary& vocabulary() const { return vocabulary_; }
  const PieceTrie& trie() const { return trie_; }
  float unknown_score() const { return unknown_score_; }

  // Returns the score of a piece of `length` bytes; a user-defined piece gets a bonus that beats ordinary ones. Returns double as
  // in the library, where path scores are floats: the rounding decides ties.
  double score_of(int32_t id, size_t length) const {
    const SentencePiece& piece = vocabulary_.piece(id);
    if (piece.type != SentencePiece::Type::user_defined) return piece.score;
    return static_cast<float>(length) * 0.1F - 0.1;
  }

 private:
  const PieceVocabulary& vocabulary_;
  PieceTrie trie_;
  float unknown_score_ = 0;
};

// For one thread; reuses its memory.
class UnigramSegmenter {
 public:
  explicit UnigramSegmenter(const UnigramModel& model) : model_(model) {}

  // Appends the tokens of a normalized text. Takes time proportional to its length times the length of the longest piece.
  void segment(std::string_view text, std::vector<int32_t>& tokens);

 private:
  // The best path that ends here: its last piece, where that piece starts, and the sum of its scores.
  struct BestPath {
    int32_t id = -1;
    int64_t begin = -1;
    float score = 0;
  };

  BestPath& path_to(size_t end);
  void raise_scores(size_t begin);
  void extend(std::string_view text, size_t begin);
  void take_paths(std::string_view text, size_t end, size_t first, std::vector<int32_t>& tokens);

  const UnigramModel& model_;
  std::vector<BestPath> paths_;  // [end - base_]
  std::vector<std::pair<int32_t, std::string_view>> backwards_;
  size_t base_ = 0;   // all paths meet here; the tokens before are final
  size_t reach_ = 0;  // end of the longest path
};

}  // namespace trireme
