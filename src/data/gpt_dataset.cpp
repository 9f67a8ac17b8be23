#include "data/gpt_dataset.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

GptDataset::GptDataset(std::unique_ptr<const Corpus> corpus, GptIndex index, int64_t sequence, int64_t vocabulary)
    : corpus_(std::move(corpus)), index_(std::move(index)), sequence_(sequence), vocabulary_(vocabulary) {}

void GptDataset::read(TokenPosition& at, std::span<int32_t> tokens) const {
  const std::span<const int64_t> lengths = corpus_->document_lengths();
  while (!tokens.empty()) {
    const int32_t document = index_.document_index[static_cast<size_t>(at.document_position)];
    const int64_t available = lengths[static_cast<size_t>(document)] - at.offset;
    const int64_t count = std::min(available, static_cast<int64_t>(tokens.size()));
    corpus_->read(document, at.offset, tokens.first(static_cast<size_t>(count)));
    tokens = tokens.subspan(static_cast<size_t>(count));
    at.offset += count;
    if (count == available) at = {at.document_position + 1, 0};
  }
}

void GptDataset::sample(int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const {
  CHECK(0 <= index && index < size());
  CHECK_EQ(static_cast<int64_t>(tokens.size()), sequence_);
  CHECK_EQ(static_cast<int64_t>(targets.size()), sequence_);
  TokenPosition at = index_.sample_index[index_.shuffle_index[static_cast<size_t>(index)]];
  read(at, tokens.first(1));
  read(at, targets);
  std::copy(targets.begin(), targets.end() - 1, tokens.begin() + 1);
}

}  // namespace trireme
