// A byte-pair tokenizer: vocabulary, pattern, normalization and added tokens together.
#pragma once

#include <memory>
#include <mutex>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/bpe_encoder.h"
#include "data/tokenizer/text_cut.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

// How <|endoftext|> and similar tokens in the text are encoded. ordinary: as ordinary text, like tiktoken's encode_ordinary.
// recognised: as the special token, like Hugging Face tokenizers.
enum class SpecialTokens : uint8_t { ordinary, recognised };

// The contents of a tokenizer file.
struct BpeDefinition {
  BpeModel model;
  WordPattern pattern = WordPattern::gpt2;
  bool says_pattern = false;  // whether the file names its pattern
  TextForm text_form = TextForm::as_it_is;
  bool adds_prefix_space = false;  // prepends a space to a text that does not start with one
  std::vector<AddedToken> added;
  int32_t end_of_document = -1;  // -1 if there is none
};

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(BpeDefinition definition, SpecialTokens specials);

  int64_t vocabulary() const override { return static_cast<int64_t>(texts_.size()); }
  int32_t end_of_document() const override { return definition_.end_of_document; }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::unique_ptr<Encoder> make_encoder() const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  size_t last_cut(std::string_view text, size_t searched) const override { return cutter_.last(text, searched); }

  const BpeDefinition& definition() const { return definition_; }

 private:
  friend class BpeTokenizerEncoder;

  BpeDefinition definition_;
  AddedTokenFinder added_, normalized_;  // matched before and after normalization
  TextCutter cutter_;
  std::vector<std::string_view> texts_;  // per token, including added ones
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Encoder>> idle_;  // reused by later calls of encode
};

}  // namespace trireme
