#include "data/tokenizer/sentencepiece/unigram_segmenter.h"

#include <algorithm>
#include <limits>

#include "data/tokenizer/sentencepiece/normalizer.h"

namespace trireme {
namespace {

// Long texts have low scores, which a 24-bit float could no longer distinguish. The library raises the scores at this one.
constexpr float kLowestScore = -100000;

}  // namespace

UnigramModel::UnigramModel(const PieceVocabulary& vocabulary) : vocabulary_(vocabulary), trie_(vocabulary.make_trie()) {
  constexpr float kUnknownPenalty = 10;
  float least = std::numeric_limits<float>::max();
  for (int32_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.type(id) == SentencePiece::Type::normal) least = std::min(least, vocabulary.piece(id).score);
  unknown_score_ = least - kUnknownPenalty;
}

UnigramSegmenter::BestPath& UnigramSegmenter::path_to(size_t end) {
  if (end - base_ >= paths_.size()) paths_.resize(end - base_ + 1);
  reach_ = std::max(reach_, end);
  return paths_[end - base_];
}

void UnigramSegmenter::segment(std::string_view text, std::vector<int32_t>& tokens) {
  const size_t first = tokens.size();
  base_ = reach_ = 0;
  paths_.assign(1, {});
  for (size_t at = 0; at < text.size(); at += character_length(text.substr(at))) {
    if (at == reach_) take_paths(text, at, first, tokens);
    extend(text, at);
  }
  take_paths(text, text.size(), first, tokens);
}

// Extends the best path to here by all pieces that start here.
void UnigramSegmenter::extend(std::string_view text, size_t begin) {
  if (paths_[begin - base_].score < kLowestScore) raise_scores(begin);
  const float before = paths_[begin - base_].score;
  const size_t character = character_length(text.substr(begin));
  bool has_character = false;
  model_.trie().each_prefix(text.substr(begin), [&](size_t length, int32_t id) {
    if (model_.vocabulary().type(id) == SentencePiece::Type::unused) return;
    const auto score = static_cast<float>(model_.score_of(id, length) + before);
    if (BestPath& path = path_to(begin + length); path.begin < 0 || score > path.score)
      path = {id, static_cast<int64_t>(begin), score};
    has_character |= length == character;
  });
  if (has_character) return;
  const float score = model_.unknown_score() + before;
  if (BestPath& path = path_to(begin + character); path.begin < 0 || score > path.score)
    path = {model_.vocabulary().unknown(), static_cast<int64_t>(begin), score};
}

// Sets the score of the best path to here to zero. The scores of longer paths keep their distance to it.
void UnigramSegmenter::raise_scores(size_t begin) {
  const float score = paths_[begin - base_].score;
  for (size_t at = begin; at <= reach_; ++at)
    if (BestPath& path = paths_[at - base_]; path.begin >= 0) path.score -= score;
}

// Called when no piece spans `end`, so that the tokens before it are those of the best path to it. Keeps its score.
void UnigramSegmenter::take_paths(std::string_view text, size_t end, size_t first, std::vector<int32_t>& tokens) {
  backwards_.clear();
  const float score = paths_[end - base_].score;
  for (size_t at = end; at > base_;) {
    const BestPath& path = paths_[at - base_];
    const auto begin = static_cast<size_t>(path.begin);
    backwards_.emplace_back(path.id, text.substr(begin, at - begin));
    at = begin;
  }
  for (auto found = backwards_.rbegin(); found != backwards_.rend(); ++found)
    model_.vocabulary().append(found->first, found->second, first, tokens);
  base_ = end;
  paths_.assign(1, {.begin = static_cast<int64_t>(end), .score = score});
}

}  // namespace trireme
