// Sample indices kept as .npy files under the names that the reference systems give them, so that either finds what the other
// made.
//
//   core    FOLDER/<md5 of a description>-GPTDataset-<train|valid|test>-{document,sample,shuffle}_index.npy and -description.txt,
//           FOLDER being model.data.index_mapping_dir or PREFIX/cache/GPTDataset_indices
//   legacy  <PREFIX, or its last part in
//   index_mapping_dir>_<train|valid|test>_indexmap_<N>ns_<T>sl_<seed>s_{doc,sample,shuffle}_idx.npy
//
// Files are written whole or not at all, so several processes may do it at once; of the ranks of a run the first should open its
// data before the others. An index that is damaged, or does not fit the data, is made again.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "data/dataset_request.h"
#include "data/samples/gpt_index.h"

namespace trireme {

// Where an index is kept; without paths it lives in memory.
struct IndexPlace {
  GptIndexPaths paths;
  std::filesystem::path description_path;  // empty: none is written
  std::string description;
};

// What names an index of Megatron core. `split_matrix` and the tokenizer are part of the name there though not of the index.
struct CoreIndexName {
  std::string dataset_path;
  std::optional<int64_t> samples_needed;
  Split split = Split::train;
  uint64_t seed = 0;
  int64_t sequence = 0;
  std::optional<std::string> splits_string;  // none: the splits are datasets of their own
  std::string tokenizer;                     // a JSON object: how the reference describes its tokenizer
};

nlohmann::ordered_json core_identifiers(const CoreIndexName& name);
IndexPlace core_index_place(const std::filesystem::path& folder, const CoreIndexName& name);

IndexPlace legacy_index_place(const std::string& index_mapping_dir, const std::string& prefix, Split split,
                              int64_t samples_needed, int64_t sequence, uint64_t seed);

inline constexpr int kMegatronIndent = 4;  // of the Python JSON whose checksums name Megatron's index files

// The index from its files if they are there and fit; else it is made, and written if that is possible. `tokens_per_epoch` is the
// number of tokens of request.documents.
GptIndex open_or_build_index(const IndexPlace& place, DocumentLengths lengths, const GptIndexRequest& request,
                             int64_t tokens_per_epoch, const DataNotice& notice);

// The arrays of a file, if they have this shape in any of the types that fit; UserError that says why not.
NpyFile open_numbers(const std::filesystem::path& path, const NpyShape& expected);

}  // namespace trireme
