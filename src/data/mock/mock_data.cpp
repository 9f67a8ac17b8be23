#include "data/mock/mock_data.h"

#include <limits>

#include "base/error.h"
#include "data/numpy/numpy_random.h"

namespace trireme {
namespace {

constexpr size_t kMockDocuments = 100000;
constexpr uint64_t kMockLengthSeed = 0;
constexpr int64_t kMockLengthLimit = 4096;  // exclusive upper bound of document lengths

int64_t checked_vocabulary(int64_t vocabulary, int64_t least) {
  if (vocabulary < least || vocabulary > std::numeric_limits<int32_t>::max())
    throw UserError("model.vocab_size={} does not suit mock data; use {} to {}", vocabulary, least,
                    std::numeric_limits<int32_t>::max());
  return vocabulary;
}

}  // namespace

// The vocabulary needs at least one counting token, the end-of-document token, and 0, which no document contains.
MockCorpus::MockCorpus(int64_t vocabulary) : end_of_document_(checked_vocabulary(vocabulary, 3) - 1), lengths_(kMockDocuments) {
  NumpyGenerator random(kMockLengthSeed);
  for (int64_t& length : lengths_) length = random.integers(1, kMockLengthLimit);
}

void MockCorpus::read(int64_t document, int64_t offset, std::span<int32_t> tokens) const {
  const int64_t length = lengths_[static_cast<size_t>(document)];
  CHECK(0 <= offset && offset + static_cast<int64_t>(tokens.size()) <= length);
  for (int32_t& token : tokens) {
    const bool last = offset == length - 1;
    token = static_cast<int32_t>(last ? end_of_document_ : 1 + offset % (end_of_document_ - 1));
    ++offset;
  }
}

LegacyMockDataset::LegacyMockDataset(int64_t samples, int64_t sequence, int64_t vocabulary, uint64_t seed)
    : samples_(samples), sequence_(sequence), vocabulary_(checked_vocabulary(vocabulary, 1)), seed_(seed) {
  CHECK(samples >= 0 && sequence >= 1);
  if (seed > std::numeric_limits<uint64_t>::max() - static_cast<uint64_t>(samples))
    throw UserError("model.seed={} is too large: mock_legacy adds the sample number to it", seed);
}

// The number of random bits per draw depends on the values drawn, so all draws before the wanted ones must be made.
void LegacyMockDataset::read(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const {
  NumpyGenerator random(seed_ + static_cast<uint64_t>(index));
  for (const std::span<int32_t> wanted : {tokens, targets})
    for (int64_t t = 0; t < sequence_; ++t) {
      const auto draw = static_cast<int32_t>(random.integers(0, vocabulary_));
      if (first <= t && t < first + std::ssize(wanted)) wanted[static_cast<size_t>(t - first)] = draw;
    }
}

}  // namespace trireme
