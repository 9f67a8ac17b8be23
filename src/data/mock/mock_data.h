// Synthetic data without files, equal to the reference systems' benchmark data.
#pragma once

#include <vector>

#include "data/corpus.h"
#include "data/dataset.h"

namespace trireme {

inline constexpr int64_t kMockVocabulary = 50257;  // GPT-2's, used if the recipe gives none

// 100,000 documents of 1 to 4095 tokens: 1, 2, 3, ... and the end-of-document token, which is the last of the vocabulary.
// Counting restarts at 1 when it would exceed a small vocabulary. Easy to learn: the loss falls within tens of steps.
class MockCorpus final : public Corpus {
 public:
  explicit MockCorpus(int64_t vocabulary);

  DocumentLengths document_lengths() const override { return lengths_; }
  void read(int64_t document, int64_t offset, std::span<int32_t> tokens) const override;

 private:
  int64_t end_of_document_;
  std::vector<int64_t> lengths_;
};

// Independent tokens and targets, uniform over the vocabulary. Sample i comes from a generator seeded with seed + i. Nothing can
// be learned: the loss stays at ln(vocabulary).
class LegacyMockDataset final : public Dataset {
 public:
  LegacyMockDataset(int64_t samples, int64_t sequence, int64_t vocabulary, uint64_t seed);

  int64_t size() const override { return samples_; }
  int64_t sequence() const override { return sequence_; }
  int64_t vocabulary() const override { return vocabulary_; }

 private:
  void read(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const override;
  int64_t samples_;
  int64_t sequence_;
  int64_t vocabulary_;
  uint64_t seed_;
};

}  // namespace trireme
