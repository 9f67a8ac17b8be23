#include "data/tokenizer/sentencepiece/model_file.h"

#include <cmath>
#include <span>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/utf8.h"
#include "data/tokenizer/pair_table.h"
#include "data/tokenizer/sentencepiece/protobuf_reader.h"

namespace trireme {
namespace {

// Field numbers of sentencepiece_model.proto.
namespace model_field {
constexpr uint64_t kPieces = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5;
}
namespace piece_field {
constexpr uint64_t kText = 1, kScore = 2, kType = 3;
}
namespace trainer_field {
constexpr uint64_t kModelType = 3, kWhitespaceAsSuffix = 24, kByteFallback = 35, kUnknownSurface = 44, kEndPiece = 47;
}
namespace normalizer_field {
constexpr uint64_t kCharsmap = 2, kDummyPrefix = 3, kRemoveExtra = 4, kEscape = 5;
}

// By default the trainer makes pieces of at most 16 characters, and the largest published vocabulary has 3 MB of them. The memory
// of a model is proportional to their bytes.
constexpr size_t kMaxPieceBytes = 1 << 12, kMaxBytesOfPieces = 1 << 24;

SentencePiece read_piece(const std::string& source, size_t index, std::string_view message) {
  SentencePiece piece;
  for (ProtobufReader reader(source, message); reader.next();) {
    if (reader.number() == piece_field::kText) piece.text = reader.as_bytes();
    if (reader.number() == piece_field::kScore) piece.score = reader.as_float();
    if (reader.number() != piece_field::kType) continue;
    const uint64_t type = reader.as_integer();
    if (type < 1 || type > 6) throw UserError("{}: piece {} has type {}, which is not known", source, index, type);
    piece.type = static_cast<SentencePiece::Type>(type);
  }
  if (piece.text.empty()) throw UserError("{}: piece {} is empty", source, index);
  if (piece.text.size() > kMaxPieceBytes)
    throw UserError("{}: piece {} has {} bytes; at most {} are supported", source, index, piece.text.size(), kMaxPieceBytes);
  if (valid_utf8_prefix(piece.text) < piece.text.size()) throw UserError("{}: piece {} is not UTF-8", source, index);
  if (!std::isfinite(piece.score)) throw UserError("{}: the score of piece {} is not a number", source, index);
  return piece;
}

void read_trainer(std::string_view message, SentencePieceModel& model) {
  for (ProtobufReader reader(model.source, message); reader.next();) {
    if (reader.number() == trainer_field::kModelType) {
      const uint64_t kind = reader.as_integer();
      if (kind < 1 || kind > 4) throw UserError("{}: model type {} is not known", model.source, kind);
      model.kind = static_cast<SentencePieceModel::Kind>(kind);
    }
    if (reader.number() == trainer_field::kWhitespaceAsSuffix) model.normalizer.treat_whitespace_as_suffix = reader.as_bool();
    if (reader.number() == trainer_field::kByteFallback) model.byte_fallback = reader.as_bool();
    if (reader.number() == trainer_field::kUnknownSurface) model.unknown_surface = reader.as_bytes();
    if (reader.number() == trainer_field::kEndPiece) model.end_piece = reader.as_bytes();
  }
}

void read_normalizer(const std::string& source, std::string_view message, NormalizerRules& rules) {
  for (ProtobufReader reader(source, message); reader.next();) {
    if (reader.number() == normalizer_field::kCharsmap) rules.precompiled_charsmap = reader.as_bytes();
    if (reader.number() == normalizer_field::kDummyPrefix) rules.add_dummy_prefix = reader.as_bool();
    if (reader.number() == normalizer_field::kRemoveExtra) rules.remove_extra_whitespaces = reader.as_bool();
    if (reader.number() == normalizer_field::kEscape) rules.escape_whitespaces = reader.as_bool();
  }
}

}  // namespace

SentencePieceModel read_sentencepiece_model(const std::string& source, std::string_view bytes) {
  SentencePieceModel model{.source = source, .checksum = crc32c(std::as_bytes(std::span(bytes)))};
  size_t bytes_of_pieces = 0;
  for (ProtobufReader reader(model.source, bytes); reader.next();) {
    if (reader.number() == model_field::kPieces) {
      if (model.pieces.size() == PairTable::kMaxTokens) throw UserError("{}: more than {} pieces", source, PairTable::kMaxTokens);
      model.pieces.push_back(read_piece(source, model.pieces.size(), reader.as_bytes()));
      bytes_of_pieces += model.pieces.back().text.size();
      if (bytes_of_pieces > kMaxBytesOfPieces)
        throw UserError("{}: its pieces have more than {} bytes, which is not supported", source, kMaxBytesOfPieces);
    }
    if (reader.number() == model_field::kTrainer) read_trainer(reader.as_bytes(), model);
    if (reader.number() == model_field::kNormalizer) read_normalizer(source, reader.as_bytes(), model.normalizer);
    if (reader.number() == model_field::kDenormalizer) read_normalizer(source, reader.as_bytes(), model.denormalizer);
  }
  if (model.pieces.empty()) throw UserError("{}: not a sentencepiece model: there are no pieces in it", source);
  if (model.kind != SentencePieceModel::Kind::unigram && model.kind != SentencePieceModel::Kind::bpe)
    throw UserError("{}: sentencepiece models of type {} are not supported; bpe and unigram are", source,
                    model.kind == SentencePieceModel::Kind::word ? "word" : "char");
  return model;
}

bool looks_like_sentencepiece(std::string_view bytes) {
  // A model starts with the key of field 1, the length of the piece, the key of the piece's field 1, and the length of its text.
  // Both keys are line feeds. A JSON file may start with line feeds too, but then the lengths do not fit. The first piece is
  // short: <unk> or another special one.
  return bytes.size() > 4 && bytes[0] == '\n' && bytes[2] == '\n' && bytes[1] > 0 && bytes[3] > 0 && bytes[3] + 2 <= bytes[1];
}

}  // namespace trireme
