// A small model's worth of tensors to save and load.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "support/temporary_folder.h"
#include "train/checkpoint/checkpoint.h"

namespace trireme {

// Element `number` of a global tensor as of a step. Exact in f32 for the steps and sizes of the tests.
inline float element(int64_t step, int64_t number) { return static_cast<float>(step * 1000 + number); }

// Memory of one slice of a global f32 tensor.
class HeldSlice {
 public:
  HeldSlice(std::string name, const TensorSlice& slice)
      : values_(std::make_shared<std::vector<float>>(slice.count(), -1.0f)),
        tensor_{std::move(name), slice, {values_->data(), DType::f32, slice.shape(), Device::host}} {}

  operator CheckpointTensor() const { return tensor_; }
  std::vector<float>& values() { return *values_; }

  // What the slice holds of the global tensor whose element number n is element(step, n).
  std::vector<float> expected(int64_t step) const {
    const TensorSlice whole = TensorSlice::whole(tensor_.slice.global);
    std::vector<float> values(tensor_.slice.count());
    for (const CopyRun& run : common_runs(whole, tensor_.slice))
      for (int64_t i = 0; i < run.count; ++i) values[run.to + i] = element(step, run.from + i);
    return values;
  }
  void fill(int64_t step) { std::ranges::copy(expected(step), values_->begin()); }

 private:
  std::shared_ptr<std::vector<float>> values_;
  CheckpointTensor tensor_;
};

inline std::vector<CheckpointTensor> tensors_of(const std::vector<HeldSlice>& slices) { return {slices.begin(), slices.end()}; }

using Names = std::vector<std::string>;

// Two whole tensors in a folder of checkpoints.
class CheckpointTest : public testing::Test {
 protected:
  void save(int64_t step, Retention retention = {.keep_last = 100}, std::optional<double> validation_loss = {}) {
    for (HeldSlice& slice : model) slice.fill(step);
    CheckpointWriter writer(folder.path(), tensors_of(model), retention);
    writer.snapshot({.step = step, .consumed_samples = step * 8, .validation_loss = validation_loss});
    writer.wait();
  }

  // Loads the newest that can be read and checks its contents against its step.
  NewestCheckpoint load() {
    for (HeldSlice& slice : model) std::ranges::fill(slice.values(), -1.0f);
    NewestCheckpoint newest = load_newest(folder.path(), [&](const CheckpointManifest&) { return tensors_of(model); });
    if (!newest.checkpoint) return newest;
    for (HeldSlice& slice : model) EXPECT_EQ(slice.values(), slice.expected(newest.checkpoint->manifest.info.step));
    return newest;
  }
  int64_t loaded_step() { return load().checkpoint->manifest.info.step; }

  std::filesystem::path shard_of(int64_t step) { return folder / checkpoint_name(step) / "rank-00000.safetensors"; }
  std::filesystem::path manifest_of(int64_t step) { return folder / checkpoint_name(step) / kManifestName; }
  Names names() {
    Names found;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) found.push_back(entry.path().filename());
    std::ranges::sort(found);
    return found;
  }

  TemporaryFolder folder;
  std::vector<HeldSlice> model = {{"embedding.weight", TensorSlice::whole({11, 6})}, {"norm.bias", TensorSlice::whole({6})}};
};

}  // namespace trireme
