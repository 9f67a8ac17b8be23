// Blends several datasets into one: maps sample n of the blend to a dataset and a sample. All numbers equal those of the
// reference systems.
//
// model.data.data_prefix alternates weights and datasets, [0.3, a, 0.7, b], or lists datasets alone, [a, b, c]. Without weights
// the datasets are blended in proportion to the samples of one epoch of each.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/numpy/npy.h"

namespace trireme {

struct Blend {
  std::vector<std::string> prefixes;
  std::vector<double> weights;  // as given; may be empty
};

// `key` names the list in messages. UserError if a weight is not positive or has no dataset.
Blend parse_blend(const std::vector<std::string>& list, const std::string& key);

// Returns weights by the size of each dataset's .bin to the power `alpha`, with six decimals.
std::vector<double> weights_by_size(const std::vector<int64_t>& bin_bytes, double alpha);

// Returns the weights divided by their sum, which is added in numpy's order.
std::vector<double> normalized(const std::vector<double>& weights);

// Megatron core: the samples that a blend of `samples` takes from a dataset, and the samples to build so that it never runs
// short.
int64_t samples_taken(int64_t samples, double weight);
int64_t samples_made(int64_t samples, double weight);
// NeMo's own blends build and take this many.
int64_t samples_made_legacy(int64_t samples, double weight);

class BlendIndex {
 public:
  // Takes each sample from the dataset that is furthest below its weight; ties go to the first.
  static BlendIndex by_weight(const std::vector<double>& weights, int64_t samples);
  // The same, but takes all samples of all datasets; a dataset leaves the blend when it is used up.
  static BlendIndex exhaustive(const std::vector<int64_t>& sizes);

  int64_t samples() const { return datasets_.size(); }
  int64_t dataset(int64_t sample) const { return datasets_[sample]; }
  int64_t dataset_sample(int64_t sample) const { return dataset_samples_[sample]; }
  const std::vector<int64_t>& taken() const { return taken_; }  // samples per dataset; empty if opened from files

  NumberArray datasets() const { return datasets_; }  // int16

  // Writes the two arrays as .npy files. Failure if they cannot be written.
  void save(const std::filesystem::path& datasets, const std::filesystem::path& dataset_samples) const;
  // Opens those files. UserError if they are not an index of so many samples and datasets.
  static BlendIndex open(const std::filesystem::path& datasets, const std::filesystem::path& dataset_samples, int64_t samples,
                         const std::vector<int64_t>& sizes);

 private:
  static BlendIndex in_memory(int64_t samples, size_t datasets);
  template <class MayTake>
  void fill(const std::vector<double>& weights, MayTake may_take);

  NumberArray datasets_, dataset_samples_;
  std::vector<int64_t> taken_;
  std::shared_ptr<void> storage_;
};

class BlendedDataset final : public Dataset {
 public:
  // Failure if a dataset has fewer samples than the blend takes from it.
  BlendedDataset(std::vector<std::unique_ptr<Dataset>> datasets, BlendIndex index, const std::vector<std::string>& names);

  int64_t size() const override { return index_.samples(); }
  int64_t epoch_size() const override;
  int64_t sequence() const override { return datasets_.front()->sequence(); }
  int64_t vocabulary() const override { return datasets_.front()->vocabulary(); }

 private:
  void read(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const override;
  std::vector<std::unique_ptr<Dataset>> datasets_;
  BlendIndex index_;
};

}  // namespace trireme
