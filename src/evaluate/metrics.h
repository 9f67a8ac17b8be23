// Scores of samples and of tasks, by lm-eval's definitions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "evaluate/samples.h"

namespace trireme {

// What one sample adds to a metric: its value, and for perplexities of texts the words or bytes that it is of.
struct MetricPart {
  double value = 0;
  double weight = 1;
};

MetricPart sample_metric(Metric metric, const Sample& sample, std::span<const RequestScore> scores);

struct MetricResult {
  Metric metric = Metric::acc;
  double value = 0;
  std::optional<double> stderr_;  // perplexities of texts have none
};

MetricResult aggregate(Metric metric, std::span<const MetricPart> parts);

}  // namespace trireme
