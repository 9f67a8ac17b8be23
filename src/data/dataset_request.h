// What a run asks of its datasets, whatever their kind.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/settings.h"
#include "data/dataset.h"
#include "data/splits.h"

namespace trireme {

using DataNotice = std::function<void(const std::string&)>;  // shows the user one line
using DatasetsBySplit = std::array<std::unique_ptr<Dataset>, kSplits>;

struct DatasetRequest {
  int64_t vocabulary = 0;  // 0: default_vocabulary
  TokenizerSettings tokenizer = {};
  int64_t sequence = 0;  // T
  uint64_t seed = 0;
  std::array<std::optional<int64_t>, kSplits> samples_needed;  // of each split that is wanted; 0: of one epoch
};

// Whether model.data.data_prefix names datasets of their own for the splits, so that model.data.splits_string is not used; and
// what it names for a split.
bool has_own_datasets(const DataSettings& settings);
const std::vector<std::string>& prefixes_of(const DataSettings& settings, Split split);
std::string prefix_key(const DataSettings& settings, Split split);  // "model.data.data_prefix.train" where that is so

}  // namespace trireme
