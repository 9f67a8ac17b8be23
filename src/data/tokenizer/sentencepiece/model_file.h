// A parsed sentencepiece model. Names and defaults are those of sentencepiece_model.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct SentencePiece {
  enum class Type : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

  std::string text;
  float score = 0;
  Type type = Type::normal;
};

struct NormalizerRules {
  std::string precompiled_charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool treat_whitespace_as_suffix = false;  // a trainer setting in the file
};

struct SentencePieceModel {
  enum class Kind : uint8_t { unigram = 1, bpe = 2, word = 3, character = 4 };

  std::string source;     // names the file in errors
  uint32_t checksum = 0;  // of the file
  Kind kind = Kind::unigram;
  bool byte_fallback = false;
  std::string unknown_surface = " \xE2\x81\x87 ";  // what an unknown piece decodes to
  std::string end_piece = "</s>";
  NormalizerRules normalizer, denormalizer;
  std::vector<SentencePiece> pieces;
};

// UserError in one line if it is not a model or of an unsupported kind.
SentencePieceModel read_sentencepiece_model(const std::string& source, std::string_view bytes);

// Returns whether a file starts like a sentencepiece model: with a piece.
bool looks_like_sentencepiece(std::string_view bytes);

}  // namespace trireme
