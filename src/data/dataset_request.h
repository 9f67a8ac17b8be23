// What a run requests of its datasets, for every data_impl.
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

using DataNotice = std::function<void(const std::string&)>;  // shows one line to the user
using DatasetsBySplit = std::array<std::unique_ptr<Dataset>, kSplits>;

struct DatasetRequest {
  int64_t vocabulary = 0;  // 0 selects default_vocabulary
  TokenizerSettings tokenizer = {};
  int64_t sequence = 0;  // T
  uint64_t seed = 0;
  std::array<std::optional<int64_t>, kSplits> samples_needed;  // per split; no value: the split is not wanted; 0: one epoch
};

// Returns whether model.data.data_prefix names separate datasets per split (then model.data.splits_string is not used), and the
// entries of a split.
bool has_own_datasets(const DataSettings& settings);
const std::vector<std::string>& prefixes_of(const DataSettings& settings, Split split);
std::string prefix_key(const DataSettings& settings,
                       Split split);  // "model.data.data_prefix.train" if data_prefix names datasets per split

}  // namespace trireme
