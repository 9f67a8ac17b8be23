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
  // The model must outlive the vocabulary. UserError if the library would reject its pieces.
  explicit PieceVocabulary(const SentencePieceModel& model);

  int64_t size() const { return static_cast<int64_t>(model_.pieces.size()); }
  const SentencePiece& piece(int32_t id) const { return model_.pieces[static_cast<size_t>(id)]; }
  SentencePiece::Type type(int32_t id) const { return piece(id).type; }

  int32_t unknown() const { return unknown_; }

  // Returns the id of the piece with this text, or unknown(). Control symbols and bytes take precedence over text pieces.
  int32_t id_of(std::string_view text) const;
  std::optional<int32_t> find(std::string_view text) const;

  // Finds a text piece, including unused ones.
  std::optional<int32_t> find_in_text(std::string_view text) const;

  // Appends the encoding of text piece `text` with this id: itself, or its bytes if it is unknown. An unknown piece after another
  // one adds nothing. `first` is the start of this document in `tokens`.
  void append(int32_t id, std::string_view text, size_t first, std::vector<int32_t>& tokens) const;

  const PieceTrie& user_defined() const { return user_defined_; }
  PieceTrie make_trie() const;  // of the text pieces

  // Returns the byte of a piece <0x00> to <0xFF>; -1 for other pieces.
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
