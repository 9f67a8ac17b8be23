// Verifies a dataset by reading all of it, on all cores.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "data/indexed/indexed_dataset.h"

namespace trireme {

// Histogram of sequence lengths: bucket 0 counts empty sequences, bucket k those of 2^(k-1) to 2^k - 1 tokens.
inline constexpr size_t kLengthBuckets = 33;

struct LengthSummary {
  int64_t sequences = 0, tokens = 0;
  int64_t shortest = 0, longest = 0;
  std::array<int64_t, kLengthBuckets> buckets{};
};

LengthSummary summarize_lengths(const IndexedDataset& data);

struct VerifiedDataset {
  int64_t sequences = 0, documents = 0, tokens = 0;
  int64_t empty_documents = 0;
  int64_t largest_token = -1;
  uint32_t crc32c_bin = 0, crc32c_idx = 0;
};

// Reads the arrays of the .idx and all tokens of the .bin. Throws a UserError with file and byte for the first fault: a negative
// length, a pointer that is not the running sum, documents out of order, or a token that is negative or not below `vocabulary`.
// `progress` receives the bytes read so far, at intervals and from any thread.
VerifiedDataset verify_dataset(const IndexedDataset& data, std::optional<int64_t> vocabulary,
                               const std::function<void(int64_t)>& progress);

}  // namespace trireme
