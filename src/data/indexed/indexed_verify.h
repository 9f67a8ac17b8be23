// Everything that can be found out about a dataset by reading all of it, on all cores.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "data/indexed/indexed_dataset.h"

namespace trireme {

// Sequences by length: bucket 0 holds the empty ones, bucket k those of 2^(k-1) to 2^k - 1 tokens.
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

// Reads the arrays of the .idx and all tokens of the .bin. UserError with file and byte for the first thing that is wrong:
//   lengths that are negative, pointers that are not their running sum, documents that do not follow each other, tokens that are
//   negative or not below `vocabulary`.
// `progress` is told the bytes read so far, from time to time and from any thread.
VerifiedDataset verify_dataset(const IndexedDataset& data, std::optional<int64_t> vocabulary,
                               const std::function<void(int64_t)>& progress);

}  // namespace trireme
