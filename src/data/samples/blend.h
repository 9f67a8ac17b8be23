// Several datasets as one: which dataset sample number n of the whole comes from. All numbers are those of the reference systems.
//
// model.data.data_prefix lists weights and datasets in turn, [0.3, a, 0.7, b], or datasets alone, [a, b, c]; then they are mixed
// in proportion to the samples that one epoch of each gives.
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
  std::vector<double> weights;  // as given; empty: none were
};

// `key` names the list in messages. UserError for weights that are not positive, or that do not pair up with datasets.
Blend parse_blend(const std::vector<std::string>& list, const std::string& key);

// Weights by the size of each dataset's .bin to the power `alpha`, with six decimals.
std::vector<double> weights_by_size(const std::vector<int64_t>& bin_bytes, double alpha);

// The weights divided by their sum, which is added up in numpy's order.
std::vector<double> normalized(const std::vector<double>& weights);

// How many samples of a dataset a blend of `samples` takes, and how many are made so that it never runs short. Megatron core.
int64_t samples_taken(int64_t samples, double weight);
int64_t samples_made(int64_t samples, double weight);
// NeMo's own blends make and take this many.
int64_t samples_made_legacy(int64_t samples, double weight);

class BlendIndex {
 public:
  // At each sample the dataset that is furthest behind its weight is next, the first of several.
  static BlendIndex by_weight(const std::vector<double>& weights, int64_t samples);
  // The same, each dataset until it is used up: all samples of all datasets.
  static BlendIndex exhaustive(const std::vector<int64_t>& sizes);

  int64_t samples() const { return datasets_.size(); }
  int64_t dataset(int64_t sample) const { return datasets_[sample]; }
  int64_t dataset_sample(int64_t sample) const { return dataset_samples_[sample]; }
  const std::vector<int64_t>& taken() const { return taken_; }  // samples of each dataset; empty when opened from files

  NumberArray datasets() const { return datasets_; }  // int16

  // The two arrays as .npy files; Failure when they cannot be written.
  void save(const std::filesystem::path& datasets, const std::filesystem::path& dataset_samples) const;
  // From those files; UserError when they are not an index of so many samples of so many datasets.
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
  // Failure when a dataset has fewer samples than the blend takes of it.
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
