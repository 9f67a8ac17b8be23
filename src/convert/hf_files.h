// The files of a transformers model: config.json, and tensors in model.safetensors or in several files listed in
// model.safetensors.index.json.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint/safetensors.h"

namespace trireme {

class HfFiles {
 public:
  // Opens a folder, or one safetensors file in it. Reads config.json and the headers. UserError if files are missing or do not
  // fit together; Failure if a file is damaged.
  explicit HfFiles(const std::filesystem::path& named);

  const std::filesystem::path& folder() const { return folder_; }
  const std::string& config() const { return config_; }
  std::string config_name() const { return (folder_ / "config.json").string(); }

  struct Place {
    std::filesystem::path file;
    SafetensorsTensor tensor;
  };
  const std::map<std::string, Place>& tensors() const { return tensors_; }

  // Reads a tensor as f32. UserError if its elements are not floating-point numbers of 16 or 32 bits.
  static void read(const Place& place, std::span<float> to);

 private:
  void add_file(const std::filesystem::path& file);
  void add_index(const std::filesystem::path& index);

  std::filesystem::path folder_;
  std::string config_;
  std::map<std::string, Place> tensors_;
};

}  // namespace trireme
