#include "data/tokenizer/sentencepiece/bpe_segmenter.h"

#include <algorithm>
#include <functional>
#include <span>

#include "base/error.h"
#include "data/tokenizer/sentencepiece/normalizer.h"

namespace trireme {
namespace {

constexpr size_t kLongestKept = 64;            // bytes; longer parts rarely repeat
constexpr size_t kMostKept = size_t{1} << 17;  // parts

}  // namespace

// How an unused piece is split depends on all previous text, so models with unused pieces have no borders.
PieceBorders::PieceBorders(const PieceVocabulary& vocabulary) : joined_(kBits) {
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    std::string_view text = vocabulary.piece(id).text;
    if (vocabulary.type(id) == SentencePiece::Type::unused) has_borders_ = false;
    while (true) {
      const size_t length = character_length(text);
      const std::string_view left = text.substr(0, length);
      text.remove_prefix(length);
      if (text.empty()) break;
      joined_[place_of(left, text.substr(0, character_length(text)))] = true;
    }
  }
}

size_t PieceBorders::place_of(std::string_view left, std::string_view right) {
  uint64_t bytes = 0;
  for (const char byte : left) bytes = bytes << 8 | static_cast<uint8_t>(byte);
  for (const char byte : right) bytes = bytes << 8 | static_cast<uint8_t>(byte);
  return (bytes * 0x9E3779B97F4A7C15U) >> 44;
}

size_t PieceBorders::part_of(std::string_view text) const {
  size_t at = 0, length = character_length(text);
  while (at + length < text.size()) {
    const std::string_view next = text.substr(at + length);
    const size_t next_length = character_length(next);
    if (is_between(text.substr(at, length), next.substr(0, next_length))) break;
    at += length;
    length = next_length;
  }
  return at + length;
}

void BpeSegmenter::segment(std::string_view text, std::vector<int32_t>& tokens) {
  const size_t first = tokens.size();
  while (!text.empty()) {
    const std::string_view part = text.substr(0, borders_.part_of(text));
    text.remove_prefix(part.size());
    std::span<const int32_t> of_part = tokens_of(part);
    // Adjacent unknown pieces are one token, also across parts.
    const bool follows_unknown = tokens.size() > first && tokens.back() == vocabulary_.unknown();
    if (follows_unknown && !of_part.empty() && of_part[0] == vocabulary_.unknown()) of_part = of_part.subspan(1);
    tokens.insert(tokens.end(), of_part.begin(), of_part.end());
  }
}

const std::vector<int32_t>& BpeSegmenter::tokens_of(std::string_view part) {
  const auto found = part.size() <= kLongestKept ? known_.find(part) : known_.end();
  if (found != known_.end()) return found->second;
  fresh_.clear();
  merge(part, fresh_);
  if (part.size() > kLongestKept) return fresh_;
  if (known_.size() >= kMostKept) known_.clear();
  return known_.emplace(part, fresh_).first->second;
}

void BpeSegmenter::merge(std::string_view part, std::vector<int32_t>& tokens) {
  if (part.size() >= kNone) throw Failure("a text of {} bytes cannot be tokenized in one piece", part.size());
  part_ = part;
  halves_.clear();
  heap_.clear();
  split_into_symbols(part);
  for (uint32_t i = 1; i < symbols_.size(); ++i) add_pair(i - 1, i);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Pair pair = heap_.back();
    heap_.pop_back();
    const Symbol &left = symbols_[pair.left], &right = symbols_[pair.right];
    if (left.length != 0 && right.length != 0 && left.length + right.length == pair.length) join(pair);
  }
  for (uint32_t at = 0; at != kNone; at = symbols_[at].next) append(part.substr(symbols_[at].begin, symbols_[at].length), tokens);
}

void BpeSegmenter::split_into_symbols(std::string_view part) {
  symbols_.clear();
  for (size_t at = 0; at < part.size();) {
    const std::string_view rest = part.substr(at);
    const size_t frozen = vocabulary_.user_defined().empty() ? 0 : vocabulary_.user_defined().longest_prefix(rest);
    const size_t length = frozen != 0 ? frozen : character_length(rest);
    const auto index = static_cast<uint32_t>(symbols_.size());
    symbols_.push_back({.begin = static_cast<uint32_t>(at),
                        .length = static_cast<uint32_t>(length),
                        .previous = index - 1,  // kNone for the first
                        .next = at + length < part.size() ? index + 1 : kNone,
                        .is_frozen = frozen != 0});
    at += length;
  }
}

void BpeSegmenter::join(const Pair& pair) {
  Symbol &left = symbols_[pair.left], &right = symbols_[pair.right];
  left.length = pair.length;
  right.length = 0;
  left.next = right.next;
  if (right.next != kNone) symbols_[right.next].previous = pair.left;
  add_pair(left.previous, pair.left);
  add_pair(pair.left, left.next);
}

void BpeSegmenter::add_pair(uint32_t left, uint32_t right) {
  if (left == kNone || right == kNone) return;
  const Symbol &first = symbols_[left], &second = symbols_[right];
  if (first.is_frozen || second.is_frozen) return;
  const uint32_t length = first.length + second.length;
  const auto id = vocabulary_.find_in_text(part_.substr(first.begin, length));
  if (!id) return;
  heap_.push_back({.score = vocabulary_.piece(*id).score, .left = left, .right = right, .length = length});
  std::push_heap(heap_.begin(), heap_.end());
  if (vocabulary_.type(*id) == SentencePiece::Type::unused)
    halves_[*id] = {part_.substr(first.begin, first.length), part_.substr(second.begin, second.length)};
}

// An unused piece is split into the two pieces it was last merged from, recursively.
void BpeSegmenter::append(std::string_view piece, std::vector<int32_t>& tokens) {
  apart_.assign(1, piece);
  while (!apart_.empty()) {
    const std::string_view text = apart_.back();
    apart_.pop_back();
    const int32_t id = vocabulary_.id_of(text);
    const auto halves = vocabulary_.type(id) == SentencePiece::Type::unused ? halves_.find(id) : halves_.end();
    if (halves == halves_.end()) {
      vocabulary_.append(id, text, 0, tokens);
    } else {
      apart_.push_back(halves->second.right);
      apart_.push_back(halves->second.left);
    }
  }
}

}  // namespace trireme
