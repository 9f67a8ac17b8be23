// Adapters as PEFT saves them: adapter_config.json and adapter_model.safetensors. Ours are tensors of a checkpoint named
// lora.PARAMETER.FIRST_ROW.a and .b, one pair for each matrix of the model's family in transformers.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "convert/hf_config.h"
#include "convert/tensor_map.h"
#include "train/checkpoint/folder.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/slice.h"

namespace trireme {

// The adapters of a checkpoint, to be written for PEFT. UserError if it has none.
class PeftExport {
 public:
  explicit PeftExport(StoredCheckpoint checkpoint);

  void write(const std::filesystem::path& output) const;  // a new folder
  size_t adapters() const { return tensors_.size(); }
  int64_t parameters() const;

 private:
  StoredCheckpoint checkpoint_;
  HfModel model_;
  std::vector<MappedTensor> tensors_;  // of the model, those with adapters
};

// A folder that PEFT, or PeftExport, has written.
class PeftAdapter {
 public:
  // UserError unless it has adapters of so many matrices, with rank and alpha of the settings.
  PeftAdapter(const std::filesystem::path& folder, const Settings& settings, size_t matrices);

  void load(std::span<const CheckpointTensor> tensors) const;

 private:
  std::filesystem::path file_;
  std::map<std::string, SafetensorsTensor> theirs_;
  std::vector<MappedTensor> model_;
};

}  // namespace trireme
