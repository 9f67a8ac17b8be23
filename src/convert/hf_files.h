// The files of a model of transformers: config.json, and its tensors in model.safetensors or in several files that
// model.safetensors.index.json lists.
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
  // A folder, or one safetensors file in it. Reads config.json and the headers; UserError for what is not there or does not
  // belong together, Failure for a damaged file.
  explicit HfFiles(const std::filesystem::path& named);

  const std::filesystem::path& folder() const { return folder_; }
  const std::string& config() const { return config_; }
  std::string config_name() const { return (folder_ / "config.json").string(); }

  struct Place {
    std::filesystem::path file;
    SafetensorsTensor tensor;
  };
  const std::map<std::string, Place>& tensors() const { return tensors_; }

  // The elements of a tensor, widened. UserError if they are not floating point numbers of 16 or 32 bits.
  static void read(const Place& place, std::span<float> to);

 private:
  void add_file(const std::filesystem::path& file);
  void add_index(const std::filesystem::path& index);

  std::filesystem::path folder_;
  std::string config_;
  std::map<std::string, Place> tensors_;
};

// A number of 16 bits: 1 sign, 5 exponent, 10 mantissa. Every one has an equal f32.
float widen_f16(uint16_t bits);

}  // namespace trireme
