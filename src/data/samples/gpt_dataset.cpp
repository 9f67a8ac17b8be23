#include "data/samples/gpt_dataset.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

GptDataset::GptDataset(std::shared_ptr<const Corpus> corpus, GptIndex index, const GptIndexRequest& request, int64_t vocabulary,
                       std::string name)
    : corpus_(std::move(corpus)), index_(std::move(index)), request_(request), vocabulary_(vocabulary), name_(std::move(name)) {}

void GptDataset::ask_for_places(const TokenPosition& begin, const TokenPosition& end) const {
  constexpr int64_t kMost = 4096;
  const int64_t first = std::max<int64_t>(begin.document_position, 0), documents = corpus_->document_lengths().size();
  const int64_t last = std::min({end.document_position, first + kMost, index_.document_index.size() - 1});
  for (int64_t at = first; at <= last; ++at)
    if (const int64_t document = index_.document_index[at]; document >= 0 && document < documents)
      corpus_->ask_for_place(document);
}

template <class Visit>
int64_t GptDataset::advance(TokenPosition& at, const TokenPosition& end, int64_t count, const Visit& visit) const {
  const DocumentLengths lengths = corpus_->document_lengths();
  int64_t done = 0;
  while (done < count && at.document_position <= end.document_position) {
    // An index read from a file may contain anything.
    if (at.document_position < 0 || at.document_position >= index_.document_index.size())
      throw Failure("the sample index of {} is damaged; remove its .npy files", name_);
    const int64_t document = index_.document_index[at.document_position];
    if (document < 0 || document >= lengths.size())
      throw Failure("the document index of {} is damaged; remove its .npy files", name_);
    const bool last = at.document_position == end.document_position;
    const int64_t until = last ? std::min(end.offset, lengths[document]) : lengths[document];
    if (at.offset < 0 || at.offset > lengths[document])
      throw Failure("the sample index of {} is damaged; remove its .npy files", name_);
    const int64_t piece = std::clamp<int64_t>(until - at.offset, 0, count - done);
    if (piece > 0) visit(document, at.offset, done, piece);
    done += piece;
    at.offset += piece;
    if (at.offset >= until) at = {at.document_position + 1, 0};
  }
  return done;
}

int64_t GptDataset::read_on(TokenPosition& at, const TokenPosition& end, std::span<int32_t> tokens) const {
  return advance(at, end, std::ssize(tokens), [&](int64_t document, int64_t offset, int64_t done, int64_t piece) {
    corpus_->read(document, offset, tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(piece)));
  });
}

void GptDataset::check_tokens(std::span<const int32_t> tokens, int64_t index) const {
  const auto [least, most] = std::ranges::minmax(tokens);
  if (least < 0 || most >= vocabulary_)
    throw UserError("{}: sample {} has token {}, but model.vocab_size is {}; is it the dataset of another tokenizer?", name_,
                    index, least < 0 ? least : most, vocabulary_);
}

int64_t GptDataset::epoch_size() const {
  const GptIndexPlan& plan = index_.plan;
  return std::max<int64_t>((plan.tokens_per_epoch - request_.extra()) / request_.sequence, 1);
}

void GptDataset::read(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const {
  const int64_t number = index_.shuffle_index[index];
  if (number < 0 || number >= size()) throw Failure("the shuffle index of {} is damaged; remove its .npy files", name_);
  const DocumentLengths lengths = corpus_->document_lengths();
  TokenPosition at = index_.position(number, lengths, request_);
  TokenPosition end = index_.position(number + 1, lengths, request_);
  end.offset += request_.extra();
  // A sample of many short documents is scattered over the files. If they are not cached, each document costs a disk read, so the
  // reads are started ahead.
  constexpr int64_t kFew = 16;
  const bool scattered = end.document_position - at.document_position >= kFew;
  if (scattered) ask_for_places(at, end);

  // tokens: x[first] .. x[first+n-1]; targets: x[first+1] .. x[first+n]. x[T] exists only with the extra token.
  const int64_t n = std::ssize(tokens), behind = request_.sequence + request_.extra() - (first + 1);
  advance(at, end, first, [](int64_t, int64_t, int64_t, int64_t) {});
  if (TokenPosition ahead = at; scattered)
    advance(ahead, end, n + 1,
            [&](int64_t document, int64_t offset, int64_t, int64_t) { corpus_->ask_for_tokens(document, offset); });
  const int64_t leading = read_on(at, end, tokens.first(1));
  const int64_t following = read_on(at, end, targets.first(static_cast<size_t>(std::min(n, behind))));
  const int64_t kept = std::min(following, n - 1);
  if (leading == 0) tokens[0] = 0;
  std::copy_n(targets.begin(), kept, tokens.begin() + 1);
  std::fill(tokens.begin() + 1 + kept, tokens.end(), 0);
  std::fill(targets.begin() + following, targets.end(), kMaskedTarget);
  check_tokens(tokens, index);
  if (following > 0) check_tokens(targets.first(static_cast<size_t>(following)), index);
}

}  // namespace trireme
