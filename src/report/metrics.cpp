#include "report/metrics.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "report/quantities.h"

namespace trireme {
namespace {

constexpr int64_t kReferenceStart = 10, kReferenceEnd = 30;

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<double> values_of(std::span<const Point> points) {
  std::vector<double> values;
  for (const Point& point : points) values.push_back(point.value);
  return values;
}

// As NeMo takes it: from the middle of the list of logged values on.
std::span<const Point> second_half(const Series& series) { return std::span(series.points).subspan(series.points.size() / 2); }

std::string steps_text(const Series& series) {
  return fmt::format("steps {} to {}", series.points.front().step, series.points.back().step);
}

// ------------------------------------------------------------------------------------------------------------ the choice

struct Chosen {
  std::string text;
  std::vector<double> seconds;
};

Chosen choose_second_half(const Series& series) {
  return {.text = fmt::format("steps {} to {}", second_half(series).front().step, series.points.back().step),
          .seconds = values_of(second_half(series))};
}

Chosen choose_from_list(const RunLog& log, const Series& series, const std::vector<int64_t>& steps) {
  Chosen chosen{.text = fmt::format("steps {}", fmt::join(steps, ", ")), .seconds = {}};
  for (const int64_t step : steps) {
    const auto found = std::ranges::lower_bound(series.points, step, {}, &Point::step);
    if (found == series.points.end() || found->step != step)
      throw UserError("--steps: {} has no step time for step {}; it has {} of {}", log.name, step, series.points.size(),
                      steps_text(series));
    chosen.seconds.push_back(found->value);
  }
  return chosen;
}

Chosen choose_range(const RunLog& log, const Series& series, const StepChoice& choice, std::vector<std::string>& notes) {
  const int64_t start = choice.start_step.value_or(kReferenceStart), end = choice.end_step.value_or(kReferenceEnd);
  if (start > end) throw UserError("--start_step {} is after --end_step {}", start, end);
  const auto begin = std::ranges::lower_bound(series.points, start, {}, &Point::step);
  const auto behind = std::ranges::upper_bound(series.points, end, {}, &Point::step);
  if (begin != behind) return {.text = fmt::format("steps {} to {}", start, end), .seconds = values_of({begin, behind})};
  if (choice.start_step || choice.end_step)
    throw UserError("{} has no step time for steps {} to {}; it has {}: choose others with --start_step and --end_step", log.name,
                    start, end, steps_text(series));
  notes.push_back(
      fmt::format("the log has {} and none of {} to {}; averaged is its second half", steps_text(series), start, end));
  return choose_second_half(series);
}

// None if what was chosen has no mean above 0: a log can hold anything.
std::optional<StepTimes> step_times(const Series& series, const Chosen& chosen) {
  const double mean = mean_of(chosen.seconds);
  if (!(mean > 0 && std::isfinite(mean))) return std::nullopt;
  return StepTimes{.source = series.name,
                   .chosen = chosen.text,
                   .averaged = static_cast<int64_t>(chosen.seconds.size()),
                   .mean = mean,
                   .median = median_of(chosen.seconds),
                   .least = std::ranges::min(chosen.seconds),
                   .most = std::ranges::max(chosen.seconds),
                   .second_half_mean = mean_of(values_of(second_half(series)))};
}

// ------------------------------------------------------------------------------------------------------------- the rates

void add_rates(RunMetrics& metrics) {
  const RunFacts& facts = metrics.facts;
  if (const std::optional<double> tokens = facts.tokens_per_step()) metrics.tokens_per_second = *tokens / metrics.step->mean;
  for (const FlopsBasis& basis : facts.flops)
    if (const std::optional<double> tflops = facts.tflops(metrics.step->mean, basis)) metrics.rates.push_back({basis, *tflops});
  metrics.mfu = facts.mfu(metrics.step->mean);
}

// What is not known, and how to say it.
void note_what_is_missing(RunMetrics& metrics) {
  const RunFacts& facts = metrics.facts;
  std::vector<std::string> missing;
  if (!facts.batch) missing.emplace_back("the batch size (--batch_size)");
  if (!facts.accelerators) missing.emplace_back("how many accelerators there were (--num_accelerators)");
  if (facts.flops.empty()) missing.emplace_back("the model (--model_type or --model_flops)");
  if (!facts.peak) missing.emplace_back("which accelerator it was (--accelerator_type or --max_flops)");
  if (!missing.empty())
    metrics.notes.push_back(fmt::format("no {}: the log does not say {}",
                                        metrics.rates.empty() ? "TFLOPS/Accelerator and no MFU" : "MFU",
                                        fmt::join(missing, ", nor ")));
}

std::optional<double> last_of(const std::optional<Series>& series) {
  return series ? std::optional(series->points.back().value) : std::nullopt;
}

std::optional<double> most_memory(const RunLog& log, const RunFacts& facts) {
  if (const std::optional<Series> series = find_quantity(log, facts, Quantity::memory))
    return std::ranges::max(series->points, {}, &Point::value).value;
  if (!log.summary.is_object()) return std::nullopt;
  const nlohmann::json measured = log.summary.value("memory_measured_bytes", nlohmann::json());
  return measured.is_number() && measured.get<double>() > 0 ? std::optional(measured.get<double>()) : std::nullopt;
}

// The steps that the log speaks of: those of the loss, or of whatever it has.
void add_steps(const RunLog& log, const std::optional<Series>& loss, RunMetrics& metrics) {
  const std::vector<Point>& points = loss ? loss->points : log.series.front().points;
  metrics.first_step = points.front().step;
  metrics.last_step = points.back().step;
}

// All but the step times and what follows from them.
RunMetrics begin_metrics(const RunLog& log, const FactOptions& said) {
  RunMetrics metrics;
  metrics.run = log.name;
  metrics.facts = facts_of(log, said);
  metrics.notes = log.notes;
  const std::optional<Series> loss = find_quantity(log, metrics.facts, Quantity::loss);
  if (loss) metrics.first_loss = loss->points.front().value;
  metrics.last_loss = last_of(loss);
  metrics.last_validation_loss = last_of(find_quantity(log, metrics.facts, Quantity::validation_loss));
  metrics.memory_bytes = most_memory(log, metrics.facts);
  add_steps(log, loss, metrics);
  return metrics;
}

}  // namespace

std::optional<double> RunMetrics::tokens_per_second_per_device() const {
  if (!tokens_per_second || !facts.accelerators) return std::nullopt;
  return *tokens_per_second / static_cast<double>(*facts.accelerators);
}

RunMetrics measure(const RunLog& log, const FactOptions& said, const StepChoice& choice) {
  RunMetrics metrics = begin_metrics(log, said);
  const std::optional<Series> seconds = reference_step_seconds(log, metrics.facts);
  if (!seconds)
    throw UserError("{} has no step times: neither \"train_step_timing in s\", \"iter_time\" nor \"time/train\"", log.name);
  const Chosen chosen =
      choice.steps.empty() ? choose_range(log, *seconds, choice, metrics.notes) : choose_from_list(log, *seconds, choice.steps);
  metrics.step = step_times(*seconds, chosen);
  if (!metrics.step)
    throw UserError("{}: the step times of {} have no mean above 0; choose others with --start_step and --end_step", log.name,
                    chosen.text);
  add_rates(metrics);
  note_what_is_missing(metrics);
  return metrics;
}

RunMetrics measure_second_half(const RunLog& log, const FactOptions& said) {
  RunMetrics metrics = begin_metrics(log, said);
  if (const std::optional<Series> seconds = reference_step_seconds(log, metrics.facts))
    metrics.step = step_times(*seconds, choose_second_half(*seconds));
  if (metrics.step) add_rates(metrics);
  note_what_is_missing(metrics);
  return metrics;
}

}  // namespace trireme
