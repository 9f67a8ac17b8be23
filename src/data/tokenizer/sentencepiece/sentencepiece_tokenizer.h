// A sentencepiece model as a tokenizer. Tokens and decoded text equal those of the sentencepiece library.
#pragma once

#include <memory>
#include <optional>

#include "data/tokenizer/bpe_tokenizer.h"
#include "data/tokenizer/sentencepiece/bpe_segmenter.h"
#include "data/tokenizer/sentencepiece/normalizer.h"
#include "data/tokenizer/sentencepiece/piece_cut.h"
#include "data/tokenizer/sentencepiece/unigram_segmenter.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  // Documents end with the model's own end piece or with the piece named here. UserError if no piece has this name.
  SentencePieceTokenizer(SentencePieceModel model, SpecialTokens specials, const std::optional<std::string>& end_of_document);

  int64_t vocabulary() const override { return pieces_.size(); }
  int32_t end_of_document() const override { return end_of_document_; }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::unique_ptr<Encoder> make_encoder() const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  std::string decode_within(int32_t token) const override;
  size_t last_cut(std::string_view text, size_t searched) const override { return cutter_ ? cutter_->last(text, searched) : 0; }
  uint32_t rules_checksum() const override { return model_.checksum; }

 private:
  friend class SentencePieceEncoder;

  void append_piece(int32_t id, bool is_first, std::string& text) const;

  SentencePieceModel model_;
  PieceVocabulary pieces_;
  Normalizer normalizer_;
  std::optional<Normalizer> denormalizer_;
  std::optional<PieceBorders> borders_;  // for BPE models
  std::optional<UnigramModel> unigram_;
  AddedTokenFinder specials_;          // control symbols, if they are to be matched in the text
  std::optional<PieceCutter> cutter_;  // for BPE models
  int32_t end_of_document_ = -1;
};

}  // namespace trireme
