// Small datasets for tests.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/indexed/indexed_writer.h"
#include "support/temporary_folder.h"

namespace trireme {

// `documents` documents of 1 to 40 tokens; document d of dataset `first` counts on from first + 100 * d.
inline std::string write_dataset(const TemporaryFolder& folder, const std::string& name, int64_t documents, int32_t first = 0) {
  const std::string prefix = (folder / name).string();
  IndexedDatasetWriter writer(prefix, TokenType::int32);
  for (int64_t d = 0; d < documents; ++d) {
    std::vector<int32_t> tokens(static_cast<size_t>(1 + d * 7 % 40));
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = first + static_cast<int32_t>(100 * d) + static_cast<int32_t>(i);
    writer.add_sequence(tokens);
    writer.end_document();
  }
  writer.finish();
  return prefix;
}

struct Sample {
  std::vector<int32_t> tokens, targets;
  bool operator==(const Sample&) const = default;
};

inline Sample sample_of(const Dataset& dataset, int64_t index) {
  const auto T = static_cast<size_t>(dataset.sequence());
  Sample sample{.tokens = std::vector<int32_t>(T), .targets = std::vector<int32_t>(T)};
  dataset.sample(index, sample.tokens, sample.targets);
  return sample;
}

}  // namespace trireme
