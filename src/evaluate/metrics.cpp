#include "evaluate/metrics.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace trireme {
namespace {

// Whether the right choice is the likeliest, each divided by its length; of equal ones the first counts.
bool is_right(const Sample& sample, std::span<const RequestScore> scores, std::span<const int64_t> lengths) {
  size_t best = 0;
  const auto value = [&](size_t i) {
    return lengths.empty() ? scores[i].log_likelihood : scores[i].log_likelihood / static_cast<double>(lengths[i]);
  };
  for (size_t i = 1; i < scores.size(); ++i)
    if (value(i) > value(best)) best = i;
  return static_cast<int64_t>(best) == sample.label;
}

double sum_of(std::span<const RequestScore> scores) {
  double sum = 0;
  for (const RequestScore& score : scores) sum += score.log_likelihood;
  return sum;
}

// Of the mean of values, from their sample variance; nothing for a single value.
std::optional<double> stderr_of_mean(std::span<const MetricPart> parts, double mean) {
  if (parts.size() < 2) return std::nullopt;
  double squares = 0;
  for (const MetricPart& part : parts) squares += (part.value - mean) * (part.value - mean);
  const auto n = static_cast<double>(parts.size());
  return std::sqrt(squares / (n - 1)) / std::sqrt(n);
}

}  // namespace

MetricPart sample_metric(Metric metric, const Sample& sample, std::span<const RequestScore> scores) {
  const bool is_choice = sample.label >= 0;
  switch (metric) {
    case Metric::acc:
      return {.value = (is_choice ? is_right(sample, scores, {}) : scores[0].is_greedy) ? 1.0 : 0.0};
    case Metric::acc_norm:
      return {.value = is_right(sample, scores, sample.characters) ? 1.0 : 0.0};
    case Metric::acc_bytes:
      return {.value = is_right(sample, scores, sample.bytes) ? 1.0 : 0.0};
    case Metric::perplexity:
      return {.value = scores[0].log_likelihood};
    case Metric::word_perplexity:
      return {.value = sum_of(scores), .weight = static_cast<double>(sample.counted_words)};
    case Metric::byte_perplexity:
    case Metric::bits_per_byte:
      return {.value = sum_of(scores), .weight = static_cast<double>(sample.counted_bytes)};
  }
  CHECK_NEVER("all metrics are above");
}

MetricResult aggregate(Metric metric, std::span<const MetricPart> parts) {
  double sum = 0, weights = 0;
  for (const MetricPart& part : parts) sum += part.value, weights += part.weight;
  const double mean = sum / weights;
  switch (metric) {
    case Metric::acc:
    case Metric::acc_norm:
    case Metric::acc_bytes:
      return {metric, mean, stderr_of_mean(parts, mean)};
    case Metric::perplexity: {
      // exp is close to linear over an error of this size, so the error of the mean is multiplied by its slope.
      const std::optional<double> of_mean = stderr_of_mean(parts, mean);
      return {metric, std::exp(-mean), of_mean ? std::optional(std::exp(-mean) * *of_mean) : std::nullopt};
    }
    case Metric::word_perplexity:
    case Metric::byte_perplexity:
      return {metric, std::exp(-mean), std::nullopt};
    case Metric::bits_per_byte:
      return {metric, -mean / std::log(2.0), std::nullopt};
  }
  CHECK_NEVER("all metrics are above");
}

}  // namespace trireme
