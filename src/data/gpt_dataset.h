// Samples cut from the documents of a corpus in the order of a GptIndex. Targets are the tokens that follow; a sample runs over
// document ends, and the end-of-document token is a target like any other.
#pragma once

#include <memory>

#include "data/corpus.h"
#include "data/dataset.h"
#include "data/gpt_index.h"

namespace trireme {

class GptDataset final : public Dataset {
 public:
  GptDataset(std::unique_ptr<const Corpus> corpus, GptIndex index, int64_t sequence, int64_t vocabulary);

  int64_t size() const override { return index_.samples(); }
  int64_t sequence() const override { return sequence_; }
  int64_t vocabulary() const override { return vocabulary_; }
  void sample(int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const override;

 private:
  // Reads on from `at`, across documents, and leaves it after the last token read.
  void read(TokenPosition& at, std::span<int32_t> tokens) const;

  std::unique_ptr<const Corpus> corpus_;
  GptIndex index_;
  int64_t sequence_;
  int64_t vocabulary_;
};

}  // namespace trireme
