// Places where a text can be cut without changing the tokens of a BPE model, so that long documents are encoded piece by piece.
//
// A place is safe when, whatever stands farther away:
// - one step of the normalizer ends there and another begins: no rule and no user-defined piece reaches across it, nor across the
//   beginning of the character before it, which is then a step of its own
// - no space that normalization removes is at the place: the character before it becomes something that does not end with a space
// - no piece of the vocabulary has what is before it and what is after it side by side
// - unknown characters before and after it do not become one token
//
// Unigram models have no such places: their scores are sums from the beginning of the text, rounded to floats, and what is
// rounded decides between pieces of nearly equal score.
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

  // The last safe place in `text`, which continues after its end; 0: there is none. The first `searched` bytes were found to
  // have none before.
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
