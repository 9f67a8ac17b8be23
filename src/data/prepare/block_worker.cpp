#include "data/prepare/block_worker.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "data/prepare/block_reader.h"
#include "data/prepare/thread_time.h"

namespace trireme::prepare {
namespace {

// A longer document is encoded in pieces, so that its tokens do not take many times its size.
constexpr size_t kLongText = size_t{1} << 22;

std::string place_of_line(const Block& block, int64_t line, size_t byte) {
  const int64_t at = block.first_byte + static_cast<int64_t>(byte);
  if (block.first_line == 0) return fmt::format("{}: byte {}", block.name, at);
  return fmt::format("{}: line {} (byte {})", block.name, block.first_line + line, at);
}

}  // namespace

BlockWorker::BlockWorker(const WorkerSettings& settings, const Tokenizer& tokenizer)
    : settings_(settings),
      tokenizer_(tokenizer),
      end_token_(tokenizer.end_of_document()),
      lines_(settings.key),
      encoder_(tokenizer.make_encoder()) {}

void BlockWorker::work(Block& block) {
  const double start = thread_seconds();
  documents_.clear();
  if (block.content == Content::json_lines)
    parse_lines(block);
  else
    parse_pieces(block);
  const double parsed = thread_seconds();
  tokenize(block);
  if (block.size == Size::large) {
    scratch_.release();
    repaired_ = {};
    tokens_ = {};
  }
  times_.parse += parsed - start;
  times_.tokenize += thread_seconds() - parsed;
}

void BlockWorker::parse_lines(Block& block) {
  scratch_.reset(block.bytes.size());
  const char* const begin = block.bytes.data();
  const char* const end = begin + block.bytes.size();
  const char* at = begin;
  if (block.first_byte == 0 && std::string_view(at, block.bytes.size()).starts_with(kByteOrderMark)) {
    at += kByteOrderMark.size();
    block.tally.add(Finding::byte_order_mark, 1, [&] { return block.name; });
  }
  for (int64_t number = 0; at < end; ++number) {
    const void* found = std::memchr(at, '\n', static_cast<size_t>(end - at));
    const char* line_end = found == nullptr ? end : static_cast<const char*>(found);
    add_line(block, lines_.read({at, static_cast<size_t>(line_end - at)}, scratch_), number, static_cast<size_t>(at - begin));
    if (settings_.on_error == OnError::stop && block.tally.first_error() != nullptr) return;
    at = line_end + 1;
  }
}

void BlockWorker::add_line(Block& block, const LineText& line, int64_t number, size_t at) {
  const auto place = [&] { return place_of_line(block, number, at + line.problem_at); };
  const auto problem = [&] { return fmt::format("{}: {}", place(), describe_problem(line, settings_.key)); };
  switch (line.status) {
    case LineStatus::blank:
      return block.tally.add(Finding::blank_line);
    case LineStatus::malformed:
      return block.tally.add(Finding::malformed_json, 1, problem);
    case LineStatus::no_key:
      return block.tally.add(Finding::no_key, 1, problem);
    case LineStatus::not_text:
      return block.tally.add(Finding::not_text, 1, problem);
    case LineStatus::text:
      break;
  }
  block.tally.add(Finding::lone_surrogate, line.lone_surrogates, place);
  documents_.push_back({.text = line.text, .ascii = line.ascii, .number = number, .at = at});
}

void BlockWorker::parse_pieces(Block& block) {
  size_t begin = 0;
  bool begins = !block.continues;
  for (size_t i = 0; i < block.pieces.size(); ++i) {
    const TextPiece& piece = block.pieces[i];
    const bool ends = piece.how == PieceEnd::document;
    documents_.push_back({.text = {block.bytes.data() + begin, piece.end - begin},
                          .begins = begins,
                          .ends = ends,
                          .number = static_cast<int64_t>(i),
                          .at = begin});
    begins = ends;
    begin = piece.end;
  }
}

void BlockWorker::tokenize(Block& block) {
  tokens_.clear();
  for (const Document& document : documents_) {
    const int64_t before = stored_tokens(block);
    block.text_bytes += std::ssize(document.text);
    const bool empty = document.text.empty() && document.begins && document.ends;
    if (empty) block.tally.add(Finding::empty_document);
    const bool has_end = !empty || settings_.empty_documents == EmptyDocuments::with_end;
    if (document.begins && has_end && settings_.end_of_document == EndOfDocument::prepend) tokens_.push_back(end_token_);
    if (!encode(block, document)) {
      // Drops the tokens of the document in this block. Its tokens in other blocks stay.
      const int64_t whole = static_cast<int64_t>(block.tokens.size()) / size_of(settings_.type);
      if (before < whole) block.tokens.resize(static_cast<size_t>(before * size_of(settings_.type)));
      tokens_.end_at(tokens_.tokens().data() + std::max<int64_t>(before - whole, 0));
      if (settings_.on_error == OnError::stop) break;
      if (document.begins) continue;
    } else if (document.ends && has_end && settings_.end_of_document == EndOfDocument::append) {
      tokens_.push_back(end_token_);
    }
    const int64_t count = stored_tokens(block) - before;
    if (document.ends)
      block.document_tokens.push_back(narrow<int32_t>(count));
    else
      block.open_tokens = count;
  }
  store(block);
}

// Returns the last place to cut within kLongText bytes, or within a larger window if there is none. Searches little more than
// uncut_bytes.
size_t BlockWorker::length_of_piece(std::string_view text) const {
  size_t searched = 0;
  for (size_t window = kLongText; window < text.size(); window *= 2) {
    if (const size_t cut = tokenizer_.last_cut(text.substr(0, window), searched); cut != 0) return cut;
    if (static_cast<int64_t>(window) > settings_.uncut_bytes) return window;
    searched = window;
  }
  return text.size();
}

// Returns false if a stretch of the document is too long and has no place to cut.
bool BlockWorker::encode(Block& block, const Document& document) {
  std::string_view text = document.text;
  bool begins = document.begins;
  while (!text.empty()) {
    const size_t length = length_of_piece(text);
    if (length > kLongText && static_cast<int64_t>(length) > settings_.uncut_bytes) {
      block.tally.add(Finding::too_long, 1,
                      [&] { return fmt::format("{}: {}", place_of(block, document), too_long_to_cut(settings_.uncut_bytes)); });
      return false;
    }
    std::string_view piece = text.substr(0, length);
    if (!document.ascii) piece = with_valid_utf8(piece, block, document);
    if (std::exchange(begins, false))
      encoder_->encode(piece, tokens_);
    else
      encoder_->encode_rest(piece, tokens_);
    if (length < text.size()) store(block);
    text.remove_prefix(length);
  }
  return true;
}

std::string_view BlockWorker::with_valid_utf8(std::string_view text, Block& block, const Document& document) {
  if (valid_utf8_prefix(text) == text.size()) return text;
  const int64_t count = replace_invalid_utf8(text, repaired_);
  block.tally.add(Finding::invalid_utf8, count, [&] { return place_of(block, document); });
  return repaired_;
}

std::string BlockWorker::place_of(const Block& block, const Document& document) const {
  if (block.content == Content::text) return block.pieces[static_cast<size_t>(document.number)].name;
  return place_of_line(block, document.number, document.at);
}

int64_t BlockWorker::stored_tokens(const Block& block) const {
  return static_cast<int64_t>(block.tokens.size()) / size_of(settings_.type) + static_cast<int64_t>(tokens_.size());
}

void BlockWorker::store(Block& block) {
  const size_t at = block.tokens.size();
  block.tokens.resize(at + tokens_.size() * static_cast<size_t>(size_of(settings_.type)));
  store_tokens(tokens_.tokens(), settings_.type, reinterpret_cast<std::byte*>(block.tokens.data() + at));
  tokens_.clear();
}

}  // namespace trireme::prepare
