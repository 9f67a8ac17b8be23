#include "data/tokenizer/sentencepiece/vocabulary.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace trireme {

using Type = SentencePiece::Type;

int PieceVocabulary::byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || !text.ends_with('>')) return -1;
  unsigned byte = 0;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
  return error == std::errc() && end == text.data() + 5 && fmt::format("<0x{:02X}>", byte) == text ? static_cast<int>(byte) : -1;
}

PieceVocabulary::PieceVocabulary(const SentencePieceModel& model) : model_(model) {
  bytes_.fill(-1);
  std::vector<std::pair<std::string_view, int32_t>> user_defined;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const auto& [text, score, type] = model.pieces[i];
    const auto id = static_cast<int32_t>(i);
    const bool is_text = type == Type::normal || type == Type::user_defined || type == Type::unused;
    if (!(is_text ? text_ids_ : reserved_ids_).emplace(text, id).second)
      throw UserError("{}: piece {} is there twice", model.source, text);
    if (type == Type::user_defined) user_defined.emplace_back(text, id);
    if (type == Type::unknown && unknown_ >= 0) throw UserError("{}: there are two unknown pieces", model.source);
    if (type == Type::unknown) unknown_ = id;
    if (type != Type::byte) continue;
    const int byte = byte_of(text);
    if (byte < 0) throw UserError("{}: {} is not the name of a byte such as <0x0A>", model.source, text);
    if (!model.byte_fallback) throw UserError("{}: there are pieces for bytes, but byte_fallback is false", model.source);
    bytes_[static_cast<size_t>(byte)] = id;
  }
  if (unknown_ < 0) throw UserError("{}: there is no unknown piece", model.source);
  if (model.byte_fallback && std::ranges::find(bytes_, -1) != bytes_.end())
    throw UserError("{}: byte_fallback is true, but there are not 256 pieces for bytes", model.source);
  user_defined_ = PieceTrie(std::move(user_defined));
}

int32_t PieceVocabulary::id_of(std::string_view text) const { return find(text).value_or(unknown_); }

std::optional<int32_t> PieceVocabulary::find(std::string_view text) const {
  if (const auto found = reserved_ids_.find(text); found != reserved_ids_.end()) return found->second;
  return find_in_text(text);
}

std::optional<int32_t> PieceVocabulary::find_in_text(std::string_view text) const {
  const auto found = text_ids_.find(text);
  return found == text_ids_.end() ? std::nullopt : std::optional(found->second);
}

void PieceVocabulary::append(int32_t id, std::string_view text, size_t first, std::vector<int32_t>& tokens) const {
  if (id != unknown_) {
    tokens.push_back(id);
  } else if (model_.byte_fallback) {
    for (const char byte : text) tokens.push_back(bytes_[static_cast<uint8_t>(byte)]);
  } else if (tokens.size() == first || tokens.back() != unknown_) {
    tokens.push_back(unknown_);
  }
}

PieceTrie PieceVocabulary::make_trie() const { return PieceTrie({text_ids_.begin(), text_ids_.end()}); }

}  // namespace trireme
