#include "data/tokenizer/bpe_tokenizer.h"

#include <algorithm>

namespace trireme {
namespace {

// Returns the tokens to match in the raw text or, with `normalized`, in the normalized text; the latter are normalized
// themselves.
std::vector<AddedToken> tokens_to_find(const BpeDefinition& definition, SpecialTokens specials, bool normalized) {
  std::vector<AddedToken> found;
  std::ranges::copy_if(definition.added, std::back_inserter(found), [&](const AddedToken& token) {
    return token.normalized == normalized && (token.kind == AddedToken::Kind::text || specials == SpecialTokens::recognised);
  });
  if (normalized && definition.text_form == TextForm::nfc)
    for (AddedToken& token : found)
      if (std::string composed; compose_nfc(token.text, composed)) token.text = composed;
  return found;
}

}  // namespace

class BpeTokenizerEncoder final : public Encoder {
 public:
  explicit BpeTokenizerEncoder(const BpeTokenizer& tokenizer)
      : tokenizer_(tokenizer), words_(tokenizer.definition_.model, tokenizer.definition_.pattern) {}

  void encode(std::string_view text, TokenBuffer& tokens) override { encode(text, Begins::yes, tokens); }
  void encode_rest(std::string_view text, TokenBuffer& tokens) override { encode(text, Begins::no, tokens); }

 private:
  enum class Begins : uint8_t { no, yes };  // no: the start of the text is in another piece

  void encode(std::string_view text, Begins begins, TokenBuffer& tokens) {
    encode_around(tokenizer_.added_, text, begins, tokens, [&](std::string_view between, Begins between_begins) {
      if (tokenizer_.definition_.text_form == TextForm::nfc && compose_nfc(between, composed_)) between = composed_;
      encode_around(tokenizer_.normalized_, between, between_begins, tokens,
                    [&](std::string_view words, Begins words_begin) { encode_words(words, words_begin, tokens); });
    });
  }

  // Appends the added tokens in the text, and calls `encode_between` for the text between them.
  template <class EncodeBetween>
  void encode_around(const AddedTokenFinder& added, std::string_view text, Begins begins, TokenBuffer& tokens,
                     const EncodeBetween& encode_between) {
    if (added.empty()) return encode_between(text, begins);
    for (size_t at = 0; at < text.size(); begins = Begins::yes) {
      const AddedTokenFinder::Found found = added.find(text, at);
      encode_between(text.substr(at, found.at - at), begins);
      if (found.at == std::string_view::npos) return;
      tokens.push_back(found.id);
      at = found.at + found.length;
    }
  }

  void encode_words(std::string_view text, Begins begins, TokenBuffer& tokens) {
    if (text.empty()) return;
    if (tokenizer_.definition_.adds_prefix_space && begins == Begins::yes && text[0] != ' ') {
      prefixed_.assign(" ").append(text);
      text = prefixed_;
    }
    words_.encode(text, tokens);
  }

  const BpeTokenizer& tokenizer_;
  BpeEncoder words_;
  std::string composed_, prefixed_;
};

BpeTokenizer::BpeTokenizer(BpeDefinition definition, SpecialTokens specials)
    : definition_(std::move(definition)),
      added_(tokens_to_find(definition_, specials, false)),
      normalized_(tokens_to_find(definition_, specials, true)),
      cutter_(definition_.pattern, definition_.text_form, added_, normalized_) {
  for (const std::string& token : definition_.model.tokens()) texts_.emplace_back(token);
  for (const AddedToken& token : definition_.added) {
    texts_.resize(std::max(texts_.size(), static_cast<size_t>(token.id) + 1));
    texts_[static_cast<size_t>(token.id)] = token.text;
  }
}

std::unique_ptr<Encoder> BpeTokenizer::make_encoder() const { return std::make_unique<BpeTokenizerEncoder>(*this); }

std::vector<int32_t> BpeTokenizer::encode(std::string_view text) const {
  std::unique_ptr<Encoder> encoder;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      encoder = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!encoder) encoder = make_encoder();
  TokenBuffer buffer;
  encoder->encode(text, buffer);
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(encoder));
  return {buffer.tokens().begin(), buffer.tokens().end()};
}

std::string BpeTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    if (token == end_of_document() && token >= 0) continue;
    if (token < 0 || token >= vocabulary())
      text += "\xEF\xBF\xBD";
    else
      text += texts_[static_cast<size_t>(token)];
  }
  return text;
}

}  // namespace trireme
