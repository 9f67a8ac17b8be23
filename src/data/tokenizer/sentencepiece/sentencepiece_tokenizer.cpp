#include "data/tokenizer/sentencepiece/sentencepiece_tokenizer.h"

#include "base/error.h"
#include "data/tokenizer/unicode.h"

namespace trireme {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

const PieceTrie& no_user_defined() {
  static const PieceTrie none;
  return none;
}

AddedTokenFinder control_symbols(const SentencePieceModel& model, SpecialTokens specials) {
  std::vector<AddedToken> found;
  for (size_t id = 0; specials == SpecialTokens::recognised && id < model.pieces.size(); ++id)
    if (model.pieces[id].type == SentencePiece::Type::control)
      found.push_back({model.pieces[id].text, static_cast<int32_t>(id), AddedToken::Kind::special});
  return AddedTokenFinder(std::move(found));
}

// Appends the characters of byte pieces; each byte of invalid UTF-8 becomes U+FFFD.
void append_bytes(std::string_view bytes, std::string& text) {
  while (!bytes.empty()) {
    const DecodedChar decoded = decode_utf8(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    text += decoded.length == 0 ? kReplacement : bytes.substr(0, decoded.length);
    bytes.remove_prefix(std::max<size_t>(decoded.length, 1));
  }
}

void append_with_spaces(std::string_view piece, std::string& text) {
  for (size_t at = 0; at < piece.size();) {
    const size_t symbol = std::min(piece.find(kSpaceSymbol, at), piece.size());
    text += piece.substr(at, symbol - at);
    if (symbol < piece.size()) text += ' ';
    at = symbol + kSpaceSymbol.size();
  }
}

}  // namespace

class SentencePieceEncoder final : public Encoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceTokenizer& tokenizer) : tokenizer_(tokenizer) {
    if (tokenizer.borders_)
      bpe_.emplace(tokenizer.pieces_, *tokenizer.borders_);
    else
      unigram_.emplace(*tokenizer.unigram_);
  }

  void encode(std::string_view text, TokenBuffer& tokens) override { encode_from(text, &Normalizer::normalize, tokens); }
  void encode_rest(std::string_view text, TokenBuffer& tokens) override {
    encode_from(text, &Normalizer::normalize_rest, tokens);
  }

 private:
  using Normalize = void (Normalizer::*)(std::string_view, std::string&) const;

  // `first` normalizes the text before the first control symbol.
  void encode_from(std::string_view text, Normalize first, TokenBuffer& tokens) {
    for (size_t at = 0; at < text.size();) {
      const AddedTokenFinder::Found found =
          tokenizer_.specials_.empty() ? AddedTokenFinder::Found{} : tokenizer_.specials_.find(text, at);
      encode_between(text.substr(at, found.at - at), at == 0 ? first : &Normalizer::normalize, tokens);
      if (found.at == std::string_view::npos) return;
      tokens.push_back(found.id);
      at = found.at + found.length;
    }
  }

  void encode_between(std::string_view text, Normalize normalize, TokenBuffer& tokens) {
    (tokenizer_.normalizer_.*normalize)(text, normalized_);
    found_.clear();
    if (bpe_)
      bpe_->segment(normalized_, found_);
    else
      unigram_->segment(normalized_, found_);
    tokens.append(found_);
  }

  const SentencePieceTokenizer& tokenizer_;
  std::optional<BpeSegmenter> bpe_;
  std::optional<UnigramSegmenter> unigram_;
  std::string normalized_;
  std::vector<int32_t> found_;
};

SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceModel model, SpecialTokens specials,
                                               const std::optional<std::string>& end_of_document)
    : model_(std::move(model)),
      pieces_(model_),
      normalizer_(model_.source, model_.normalizer, pieces_.user_defined()),
      specials_(control_symbols(model_, specials)) {
  if (!model_.denormalizer.precompiled_charsmap.empty())
    denormalizer_.emplace(model_.source, model_.denormalizer, no_user_defined());
  if (model_.kind == SentencePieceModel::Kind::bpe) {
    borders_.emplace(pieces_);
    cutter_.emplace(model_, pieces_, normalizer_, *borders_, specials_);
  } else {
    unigram_.emplace(pieces_);
  }
  if (end_of_document) {
    end_of_document_ = pieces_.find(*end_of_document).value_or(-1);
    if (end_of_document_ < 0) throw UserError("{}: no special token {}", model_.source, *end_of_document);
  } else if (const auto end = pieces_.find(model_.end_piece); end && pieces_.type(*end) == SentencePiece::Type::control) {
    end_of_document_ = *end;
  }
}

std::unique_ptr<Encoder> SentencePieceTokenizer::make_encoder() const { return std::make_unique<SentencePieceEncoder>(*this); }

std::vector<int32_t> SentencePieceTokenizer::encode(std::string_view text) const {
  TokenBuffer buffer;
  SentencePieceEncoder(*this).encode(text, buffer);
  return {buffer.tokens().begin(), buffer.tokens().end()};
}

// Drops a space at the start of a text, because normalization added it.
void SentencePieceTokenizer::append_piece(int32_t id, bool is_first, std::string& text) const {
  std::string_view piece = pieces_.piece(id).text;
  if (pieces_.type(id) == SentencePiece::Type::unknown) {
    text += model_.unknown_surface;
  } else if (pieces_.type(id) != SentencePiece::Type::control) {
    if (is_first && piece.starts_with(kSpaceSymbol)) piece.remove_prefix(kSpaceSymbol.size());
    append_with_spaces(piece, text);
  }
}

std::string SentencePieceTokenizer::decode(std::span<const int32_t> tokens) const {
  const NormalizerRules& rules = model_.normalizer;
  const bool drops_first_space = rules.add_dummy_prefix || rules.remove_extra_whitespaces;
  std::string text, bytes;
  bool is_first = drops_first_space;
  for (const int32_t token : tokens) {
    const bool is_piece = token >= 0 && token < vocabulary();
    // The library uses only the first of two pieces with the same text.
    const int32_t id = is_piece ? pieces_.id_of(pieces_.piece(token).text) : -1;
    if (is_piece && pieces_.type(id) == SentencePiece::Type::byte) {
      bytes += static_cast<char>(PieceVocabulary::byte_of(pieces_.piece(id).text));
      continue;
    }
    append_bytes(bytes, text);
    bytes.clear();
    is_first = is_first && text.empty();
    if (!is_piece) {
      text += kReplacement;
    } else if (token != end_of_document_) {
      append_piece(id, is_first, text);
      // Drops one space if only one was added, and all if extra ones are removed.
      if (is_first && !rules.remove_extra_whitespaces && pieces_.piece(id).text.starts_with(kSpaceSymbol)) is_first = false;
    }
  }
  append_bytes(bytes, text);
  if (!denormalizer_) return text;
  std::string denormalized;
  denormalizer_->normalize(text, denormalized);
  return denormalized;
}

std::string SentencePieceTokenizer::decode_within(int32_t token) const {
  std::string text;
  if (token < 0 || token >= vocabulary()) return std::string(kReplacement);
  const SentencePiece& piece = pieces_.piece(token);
  if (piece.type == SentencePiece::Type::byte)
    text += static_cast<char>(PieceVocabulary::byte_of(piece.text));
  else
    append_piece(token, false, text);
  return text;
}

}  // namespace trireme
