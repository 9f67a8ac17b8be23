// Sample indices cached as .npy files under the reference systems' names, so that each system finds the other's files.
//
//   core    FOLDER/<md5 of a description>-GPTDataset-<train|valid|test>-{document,sample,shuffle}_index.npy and -description.txt;
//           FOLDER is model.data.index_mapping_dir or PREFIX/cache/GPTDataset_indices
//   legacy  BASE_<train|valid|test>_indexmap_<N>ns_<T>sl_<seed>s_{doc,sample,shuffle}_idx.npy;
//           BASE is PREFIX, or index_mapping_dir and the last part of PREFIX
//
// Files are written atomically, so several processes may write the same index. The first rank of a run should open its data
// before the others. An index that is damaged or does not fit the data is built again.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "data/dataset_request.h"
#include "data/samples/gpt_index.h"

namespace trireme {

// Where an index is stored; without paths it stays in memory.
struct IndexPlace {
  GptIndexPaths paths;
  std::filesystem::path description_path;  // empty: no description is written
  std::string description;
};

// What names an index of Megatron core. `split_matrix` and the tokenizer are part of the name, though the index does not depend
// on them.
struct CoreIndexName {
  std::string dataset_path;
  std::optional<int64_t> samples_needed;
  Split split = Split::train;
  uint64_t seed = 0;
  int64_t sequence = 0;
  std::optional<std::string> splits_string;  // no value: each split has its own datasets
  std::string tokenizer;                     // a JSON object that describes the tokenizer as the reference does
};

nlohmann::ordered_json core_identifiers(const CoreIndexName& name);
IndexPlace core_index_place(const std::filesystem::path& folder, const CoreIndexName& name);

IndexPlace legacy_index_place(const std::string& index_mapping_dir, const std::string& prefix, Split split,
                              int64_t samples_needed, int64_t sequence, uint64_t seed);

inline constexpr int kMegatronIndent = 4;  // indentation of the Python JSON whose checksums name Megatron's index files

// Opens the index if its files exist and fit. Otherwise builds it, and writes it if possible. `tokens_per_epoch` is the number of
// tokens of request.documents.
GptIndex open_or_build_index(const IndexPlace& place, DocumentLengths lengths, const GptIndexRequest& request,
                             int64_t tokens_per_epoch, const DataNotice& notice);

// Opens an array file of this shape and one of the allowed types. UserError says why it does not fit.
NpyFile open_numbers(const std::filesystem::path& path, const NpyShape& expected);

}  // namespace trireme
