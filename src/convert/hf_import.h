// trireme import: converts a transformers model to a run folder with one checkpoint of its weights at step 0.
#pragma once

#include "convert/hf_files.h"
#include "convert/tensor_map.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/slice.h"

namespace trireme {

class HfImport {
 public:
  // Checks config.json and the name, shape and type of every tensor before anything is written.
  explicit HfImport(const std::filesystem::path& named);

  // Writes a new folder, one tensor at a time:
  //   recipe.yaml                  the model's settings, and model.restore_from_path, which starts training from its weights
  //   checkpoints/step-00000000/   the weights in f32, without optimizer state
  //   tokenizer/                   the tokenizer files found
  // Returns a description of the tokenizer.
  std::string write(const std::filesystem::path& output) const;

  // Fills f32 tensors, each with its slice of one of our parameters.
  void load(std::span<const CheckpointTensor> tensors) const;

  const HfModel& model() const { return model_; }
  std::vector<std::filesystem::path> files() const;  // with the weights
  const std::filesystem::path& folder() const { return files_.folder(); }
  const char* stored_as() const { return stored_as_; }  // type of the weights: "F32", ...
  int64_t parameters() const;

 private:
  struct Piece {
    MappedTensor tensor;
    const HfFiles::Place* place = nullptr;  // nullptr: zeros
  };
  void find_tensors();
  const HfFiles::Place* find(const std::string& name) const;
  void require_nothing_else() const;
  void fill(const std::string& parameter, std::span<float> to) const;

  HfFiles files_;
  HfModel model_;
  const char* stored_as_ = "F32";
  std::map<std::string, std::vector<Piece>> pieces_;  // by our parameter
};

}  // namespace trireme
