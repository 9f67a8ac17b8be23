// Places where a text can be cut without changing the tokens of a BPE model, so that long documents are encoded in pieces.
//
// A place is safe if, independent of more distant text:
// - one step of the normalizer ends there and another starts: no rule and no user-defined piece spans the place or the start of
//   the character before it, which is then a step of its own
// - normalization removes no space there: the replacement of the character before it does not end with a space
// - no piece of the vocabulary has the characters before and after the place adjacent to each other
// - unknown characters before and after it do not become one token
//
// Unigram models have no safe places: their scores are sums from the start of the text, rounded to floats, and the rounding
// decides between pieces of nearly equal score.
#pragma once

#include <string_view>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/sentencepiece/bpe_segmenter.h"
#include "data/tokenizer/sentencepiece/normalizer.h"
#include "data/tokenizer/sentencepiece/vocabulary.h"

namespace trireme {

class PieceCutter {
 public:
  // All must outlive the cutter.
  PieceCutter(const SentencePieceModel& model, const PieceVocabulary& vocabulary, const Normalizer& normalizer,
              const PieceBorders& borders, const AddedTokenFinder& specials);

  // Returns the last safe place in `text`, which continues after its end, or 0. The caller has found none in the first `searched`
  // bytes.
  size_t last(std::string_view text, size_t searched) const;

 private:
  bool is_safe(std::string_view text, size_t at) const;
  bool is_step(std::string_view text, size_t begin, size_t end) const;
  bool is_known(std::string_view character) const;

  const SentencePieceModel& model_;
  const PieceVocabulary& vocabulary_;
  const Normalizer& normalizer_;
  const PieceBorders& borders_;
  const AddedTokenFinder& specials_;
  bool has_cuts_;
  size_t longest_step_, margin_;  // bytes
};

}  // namespace trireme
