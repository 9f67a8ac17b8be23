// The pieces of a sentencepiece model and their ids.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/sentencepiece/model_file.h"
#include "data/tokenizer/sentencepiece/piece_trie.h"

namespace trireme {

class PieceVocabulary {
 public:
  // The model must outlive the vocabulary. UserError if its pieces are not what the library takes.
  explicit PieceVocabulary(const SentencePieceModel& model);

  int64_t size() const { return static_cast<int64_t>(model_.pieces.size()); }
  const SentencePiece& piece(int32_t id) const { return model_.pieces[static_cast<size_t>(id)]; }
  SentencePiece::Type type(int32_t id) const { return piece(id).type; }

  int32_t unknown() const { return unknown_; }

  // The id of a piece with this text; unknown() if there is none. Control symbols and bytes come before pieces of text.
  int32_t id_of(std::string_view text) const;
  std::optional<int32_t> find(std::string_view text) const;

  // Of the pieces that text is made of, those that are not used included.
  std::optional<int32_t> find_in_text(std::string_view text) const;

  // Adds what the piece of text `text` with this id becomes: itself or, where it is unknown, its bytes. An unknown piece that
  // follows another one adds nothing. `first`: where the tokens of this document begin.
  void append(int32_t id, std::string_view text, size_t first, std::vector<int32_t>& tokens) const;

  const PieceTrie& user_defined() const { return user_defined_; }
  PieceTrie make_trie() const;  // of the pieces that text is made of

  // The byte of a piece <0x00> to <0xFF>; -1: it is not of this form.
  static int byte_of(std::string_view text);

 private:
  using Ids = std::unordered_map<std::string_view, int32_t>;

  const SentencePieceModel& model_;
  Ids text_ids_, reserved_ids_;
  PieceTrie user_defined_;
  int32_t unknown_ = -1;
  std::array<int32_t, 256> bytes_;  // [byte] its token, with byte fallback
};

}  // namespace trireme
