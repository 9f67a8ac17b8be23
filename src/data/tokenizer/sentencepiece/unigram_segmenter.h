// The pieces of a unigram model whose scores have the greatest sum.
#pragma once

#include <vector>

#include "data/tokenizer/sentencepiece/vocabulary.h"

namespace trireme {

// What all threads share.
class UnigramModel {
 public:
  explicit UnigramModel(const PieceVocabulary& vocabulary);

  const PieceVocabulary& vocabulary() const { return vocabulary_; }
  const PieceTrie& trie() const { return trie_; }
  float unknown_score() const { return unknown_score_; }

  // Of a piece of `length` bytes; a user-defined one gets a bonus by which it wins against ordinary ones. In double, as in the
  // library, where the scores of paths are floats: ties are decided by what is rounded where.
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

// Works on one thread; keeps its memory for the next text.
class UnigramSegmenter {
 public:
  explicit UnigramSegmenter(const UnigramModel& model) : model_(model) {}

  // Adds the tokens of a normalized text. Takes time in proportion to its length times that of the longest piece.
  void segment(std::string_view text, std::vector<int32_t>& tokens);

 private:
  // The best path that ends here: its last piece, where that begins, and the sum of its scores.
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
  size_t base_ = 0;   // all paths meet here, and the tokens before are decided
  size_t reach_ = 0;  // where the farthest path ends
};

}  // namespace trireme
