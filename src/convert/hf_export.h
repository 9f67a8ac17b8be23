// trireme export: writes a checkpoint as a folder that transformers loads.
#pragma once

#include <optional>

#include "convert/tensor_map.h"
#include "convert/tokenizer_files.h"
#include "train/checkpoint/folder.h"
#include "train/checkpoint/safetensors.h"

namespace trireme {

struct HfExportOptions {
  std::optional<DType> dtype = {};          // of the weights; no value: the type used in training
  int64_t max_shard_bytes = 5'000'000'000;  // larger models are split into several files
};

class HfExport {
 public:
  // Checks everything except the weights. UserError names the setting that transformers does not support.
  HfExport(StoredCheckpoint checkpoint, const HfExportOptions& options);

  // Writes a new folder, one tensor at a time. It appears under its name when complete.
  void write(const std::filesystem::path& output) const;

  const HfModel& model() const { return model_; }
  DType dtype() const { return dtype_; }
  int64_t parameters() const;
  int64_t bytes() const;
  std::vector<std::string> files() const;  // files with weights
  std::string tokenizer() const { return tokenizer_.description; }
  std::vector<std::string> folded() const;  // one line per setting that transformers represents differently

 private:
  struct Shard {
    std::string file;
    std::vector<MappedTensor> tensors;
    int64_t bytes() const;
    int64_t element_bytes = 4;
  };
  void check_tokenizer();  // UserError if it has more tokens than the model
  SafetensorsHeader header_of(const Shard& shard) const;
  void write_shard(const std::filesystem::path& folder, const Shard& shard) const;
  std::string index_json() const;

  StoredCheckpoint checkpoint_;
  Tree recipe_;
  HfModel model_;
  DType dtype_ = DType::f32;
  TokenizerFiles tokenizer_;
  std::vector<Shard> shards_;
};

}  // namespace trireme
