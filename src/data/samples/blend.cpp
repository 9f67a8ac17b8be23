#include "data/samples/blend.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "data/samples/index_cache.h"

namespace trireme {
namespace {

constexpr size_t kMostDatasets = 32766;  // the index stores them in 16 bits

std::optional<double> as_number(const std::string& text) {
  char* after = nullptr;
  const double value = std::strtod(text.c_str(), &after);
  if (after == text.c_str() || *after != '\0') return std::nullopt;
  return value;
}

constexpr std::string_view kBlanks = " \t";

// numpy sums long arrays pairwise in eight lanes. Weights divided by a differently rounded sum would differ in the last bit.
double numpy_sum(std::span<const double> values) {
  if (values.size() < 8) return std::accumulate(values.begin(), values.end(), 0.0);
  if (values.size() > 128) {
    const size_t half = values.size() / 2 / 8 * 8;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  std::array<double, 8> strands;
  std::copy_n(values.begin(), 8, strands.begin());
  const size_t whole = values.size() / 8 * 8;
  for (size_t i = 8; i < whole; ++i) strands[i % 8] += values[i];
  const auto& s = strands;
  double sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  for (size_t i = whole; i < values.size(); ++i) sum += values[i];
  return sum;
}

struct BlendArrays {
  NewNumbers datasets, dataset_samples;
};

}  // namespace

Blend parse_blend(const std::vector<std::string>& list, const std::string& key) {
  if (list.empty())
    throw UserError("{} is empty; name datasets, such as [my_text_document] or [0.3, a_text_document, 0.7, b_text_document]",
                    key);
  const bool any_number = std::ranges::any_of(list, [](const std::string& item) { return as_number(item).has_value(); });
  Blend blend;
  if (!any_number) {
    for (const std::string& item : list) blend.prefixes.emplace_back(trimmed(item, kBlanks));
  } else {
    if (list.size() % 2 == 1)
      throw UserError("{} has {} entries: weights and datasets do not pair up; use [weight, dataset, weight, dataset, ...]", key,
                      list.size());
    for (size_t i = 0; i < list.size(); i += 2) {
      const std::optional<double> weight = as_number(list[i]);
      if (!weight || as_number(list[i + 1]))
        throw UserError("{}: entries {} and {}, '{}' and '{}', are not a weight and a dataset", key, i, i + 1, list[i],
                        list[i + 1]);
      if (!(*weight > 0) || !std::isfinite(*weight))
        throw UserError("{}: the weight {} of {} is not possible; use a number above 0, or leave the dataset out", key, list[i],
                        list[i + 1]);
      blend.weights.push_back(*weight);
      blend.prefixes.emplace_back(trimmed(list[i + 1], kBlanks));
    }
  }
  if (blend.prefixes.size() > kMostDatasets)
    throw UserError("{} has {} datasets; at most {} can be blended", key, blend.prefixes.size(), kMostDatasets);
  return blend;
}

std::vector<double> weights_by_size(const std::vector<int64_t>& bin_bytes, double alpha) {
  std::vector<double> weights;
  for (const int64_t bytes : bin_bytes) weights.push_back(std::pow(static_cast<double>(bytes), alpha));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight = std::nearbyint(weight / sum * 1e6) / 1e6;
  return weights;
}

std::vector<double> normalized(const std::vector<double>& weights) {
  std::vector<double> shares = weights;
  const double sum = numpy_sum(weights);
  for (double& share : shares) share /= sum;
  return shares;
}

int64_t samples_taken(int64_t samples, double weight) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(samples) * weight));
}

int64_t samples_made(int64_t samples, double weight) {
  constexpr double kSurplus = 1 + 0.005;
  return static_cast<int64_t>(std::ceil(static_cast<double>(samples_taken(samples, weight)) * kSurplus));
}

int64_t samples_made_legacy(int64_t samples, double weight) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(samples) * weight * 1.005));
}

BlendIndex BlendIndex::in_memory(int64_t samples, size_t datasets) {
  const NumberType type = samples <= std::numeric_limits<uint32_t>::max() ? NumberType::uint32 : NumberType::int64;
  BlendIndex index;
  const auto arrays = std::make_shared<BlendArrays>(
      BlendArrays{.datasets = NewNumbers({}, {.type = NumberType::int16, .rows = samples, .columns = 0}),
                  .dataset_samples = NewNumbers({}, {.type = type, .rows = samples, .columns = 0})});
  index.datasets_ = arrays->datasets.numbers();
  index.dataset_samples_ = arrays->dataset_samples.numbers();
  index.taken_.resize(datasets);
  index.storage_ = arrays;
  return index;
}

template <class MayTake>
void BlendIndex::fill(const std::vector<double>& weights, MayTake may_take) {
  auto& arrays = *static_cast<BlendArrays*>(storage_.get());
  const std::span<int16_t> datasets = arrays.datasets.as<int16_t>();
  const auto fill_as = [&]<class Number>(std::span<Number> dataset_samples) {
    for (size_t sample = 0; sample < datasets.size(); ++sample) {
      const double wanted = std::max(static_cast<double>(sample), 1.0);
      size_t furthest = 0;
      double most = std::numeric_limits<double>::lowest();
      for (size_t d = 0; d < weights.size(); ++d) {
        if (!may_take(d)) continue;
        const double behind = weights[d] * wanted - static_cast<double>(taken_[d]);
        if (behind > most) furthest = d, most = behind;
      }
      datasets[sample] = static_cast<int16_t>(furthest);
      dataset_samples[sample] = static_cast<Number>(taken_[furthest]++);
    }
  };
  if (dataset_samples_.type() == NumberType::uint32)
    fill_as(arrays.dataset_samples.as<uint32_t>());
  else
    fill_as(arrays.dataset_samples.as<int64_t>());
}

BlendIndex BlendIndex::by_weight(const std::vector<double>& weights, int64_t samples) {
  BlendIndex index = in_memory(samples, weights.size());
  index.fill(weights, [](size_t) { return true; });
  return index;
}

BlendIndex BlendIndex::exhaustive(const std::vector<int64_t>& sizes) {
  const int64_t samples = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  BlendIndex index = in_memory(samples, sizes.size());
  std::vector<double> weights;
  for (const int64_t size : sizes) weights.push_back(static_cast<double>(size) / static_cast<double>(samples));
  index.fill(weights, [&](size_t d) { return index.taken_[d] != sizes[d]; });
  return index;
}

void BlendIndex::save(const std::filesystem::path& datasets, const std::filesystem::path& dataset_samples) const {
  const auto save_as = [this]<class Number>(const std::filesystem::path& path, NumberType type, const NumberArray& numbers,
                                            Number) {
    NewNumbers file(path, {.type = type, .rows = samples(), .columns = 0});
    const std::span<Number> to = file.as<Number>();
    for (int64_t sample = 0; sample < samples(); ++sample) to[static_cast<size_t>(sample)] = static_cast<Number>(numbers[sample]);
    file.commit();
  };
  save_as(datasets, NumberType::int16, datasets_, int16_t{});
  save_as(dataset_samples, NumberType::int64, dataset_samples_, int64_t{});
}

BlendIndex BlendIndex::open(const std::filesystem::path& datasets, const std::filesystem::path& dataset_samples, int64_t samples,
                            const std::vector<int64_t>& sizes) {
  struct Files {
    NpyFile datasets, dataset_samples;
  };
  const auto files = std::make_shared<Files>(
      Files{.datasets = open_numbers(datasets, {.type = NumberType::int16, .rows = samples, .columns = 0}),
            .dataset_samples = open_numbers(dataset_samples, {.type = NumberType::int64, .rows = samples, .columns = 0})});
  BlendIndex index;
  index.datasets_ = files->datasets.numbers();
  index.dataset_samples_ = files->dataset_samples.numbers();
  index.storage_ = files;
  // Checks evenly spaced entries of the index; reading all of it would take as long as building it.
  constexpr int64_t kPlaces = 1024;
  for (int64_t place = 0; place < std::min(kPlaces, samples); ++place) {
    const int64_t sample = samples <= kPlaces ? place : place * (samples / kPlaces);
    const int64_t dataset = index.dataset(sample);
    if (dataset < 0 || dataset >= std::ssize(sizes) || index.dataset_sample(sample) < 0 ||
        index.dataset_sample(sample) >= sizes[static_cast<size_t>(dataset)])
      throw UserError("{}: sample {} is outside the {} datasets of this blend", datasets.string(), sample, sizes.size());
  }
  return index;
}

BlendedDataset::BlendedDataset(std::vector<std::unique_ptr<Dataset>> datasets, BlendIndex index,
                               const std::vector<std::string>& names)
    : datasets_(std::move(datasets)), index_(std::move(index)) {
  CHECK(!datasets_.empty() && datasets_.size() == names.size());
  for (size_t i = 0; i < index_.taken().size(); ++i)
    if (index_.taken()[i] > datasets_[i]->size())
      throw Failure("the blend takes {} samples of {}, which has {}", index_.taken()[i], names[i], datasets_[i]->size());
}

int64_t BlendedDataset::epoch_size() const {
  int64_t samples = 0;
  for (const auto& dataset : datasets_) samples += dataset->epoch_size();
  return samples;
}

void BlendedDataset::read(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const {
  const int64_t number = index_.dataset(index), dataset_sample = index_.dataset_sample(index);
  // An index read from a file may contain anything.
  if (number < 0 || number >= std::ssize(datasets_))
    throw Failure("sample {} of the blend: its .npy files are damaged; remove them", index);
  const Dataset& dataset = *datasets_[static_cast<size_t>(number)];
  if (dataset_sample < 0 || dataset_sample >= dataset.size())
    throw Failure("sample {} of the blend: its .npy files are damaged; remove them", index);
  dataset.sample_part(dataset_sample, first, tokens, targets);
}

}  // namespace trireme
