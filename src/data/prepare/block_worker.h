// Converts the bytes of a block to tokens.
#pragma once

#include <memory>
#include <string>

#include "data/prepare/block.h"
#include "data/prepare/json_line.h"
#include "data/token_type.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme::prepare {

enum class EndOfDocument : uint8_t { none, append, prepend };
enum class EmptyDocuments : uint8_t { bare, with_end };  // whether an empty document gets the end-of-document token
enum class OnError : uint8_t { stop, skip };

struct WorkerSettings {
  std::string key = "text";
  TokenType type = TokenType::uint16;
  EndOfDocument end_of_document = EndOfDocument::none;
  EmptyDocuments empty_documents = EmptyDocuments::bare;
  OnError on_error = OnError::stop;  // stop: ignores the rest of a block after its first error
  int64_t uncut_bytes = 0;           // limit of text without a place to cut
};

struct WorkerTimes {  // CPU seconds of the worker's thread
  double parse = 0, tokenize = 0;
};

class BlockWorker {
 public:
  BlockWorker(const WorkerSettings& settings, const Tokenizer& tokenizer);

  void work(Block& block);
  const WorkerTimes& times() const { return times_; }

 private:
  struct Document {
    std::string_view text;
    bool begins = true, ends = true;  // false if the start or the end is in another block
    bool ascii = false;               // pure ASCII, so its UTF-8 needs no check
    int64_t number = 0;               // index of the line or piece in the block
    size_t at = 0;                    // offset in the bytes of the block
  };

  void parse_lines(Block& block);
  void add_line(Block& block, const LineText& line, int64_t number, size_t at);
  void parse_pieces(Block& block);
  void tokenize(Block& block);
  bool encode(Block& block, const Document& document);
  size_t length_of_piece(std::string_view text) const;
  std::string_view with_valid_utf8(std::string_view text, Block& block, const Document& document);
  std::string place_of(const Block& block, const Document& document) const;
  void store(Block& block);
  int64_t stored_tokens(const Block& block) const;

  WorkerSettings settings_;
  const Tokenizer& tokenizer_;
  int32_t end_token_;
  JsonLineReader lines_;
  TextScratch scratch_;
  std::vector<Document> documents_;
  std::string repaired_;
  std::unique_ptr<Encoder> encoder_;
  TokenBuffer tokens_;  // not yet stored in the block
  WorkerTimes times_;
};

}  // namespace trireme::prepare
