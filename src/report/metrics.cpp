#include "report/metrics.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "report/quantities.h"
#include "telemetry/flops.h"
#include "telemetry/telemetry.h"

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

std::string steps_text(const Series& series) {
  return fmt::format("steps {} to {}", series.points.front().step, series.points.back().step);
}

const Point* point_at(const Series& series, int64_t step) {
  const auto found = std::ranges::lower_bound(series.points, step, {}, &Point::step);
  return found == series.points.end() || found->step != step ? nullptr : &*found;
}

// ------------------------------------------------------------------------------------------------------- choosing steps

struct Chosen {
  std::string text;
  std::vector<Point> points;

  std::vector<double> seconds() const {
    std::vector<double> values;
    for (const Point& point : points) values.push_back(point.value);
    return values;
  }
};

Chosen choose_steady(const RunLog& log, const Series& series) {
  Chosen chosen;
  if (const Series* const steady = log.find(kSteadyStep))
    for (const Point& point : series.points)
      if (const Point* is_steady = point_at(*steady, point.step); is_steady != nullptr && is_steady->value == 1)
        chosen.points.push_back(point);
  std::string_view kind = "steady steps";
  std::string without;
  if (chosen.points.empty()) {
    const int64_t first = warm_up_steps(std::ssize(series.points));
    chosen.points.assign(series.points.begin() + first, series.points.end());
    kind = "steps";
    if (first > 0) without = fmt::format(", without the first {}", first);
  }
  chosen.text = fmt::format("{} {} to {}{}", kind, chosen.points.front().step, chosen.points.back().step, without);
  return chosen;
}

Chosen choose_from_list(const RunLog& log, const Series& series, const std::vector<int64_t>& steps) {
  Chosen chosen{.text = fmt::format("steps {}", fmt::join(steps, ", ")), .points = {}};
  for (const int64_t step : steps) {
    const Point* const found = point_at(series, step);
    if (found == nullptr)
      throw UserError("--steps: {} has no step time for step {}; it has {} of {}", log.name, step, series.points.size(),
                      steps_text(series));
    chosen.points.push_back(*found);
  }
  return chosen;
}

Chosen choose_range(const RunLog& log, const Series& series, const StepChoice& choice) {
  const int64_t start = choice.start_step.value_or(kReferenceStart), end = choice.end_step.value_or(kReferenceEnd);
  if (start > end) throw UserError("--start_step {} is after --end_step {}", start, end);
  const auto begin = std::ranges::lower_bound(series.points, start, {}, &Point::step);
  const auto behind = std::ranges::upper_bound(series.points, end, {}, &Point::step);
  if (begin == behind)
    throw UserError("{} has no step time for steps {} to {}; it has {}: choose others with --start_step and --end_step", log.name,
                    start, end, steps_text(series));
  return {.text = fmt::format("steps {} to {}", start, end), .points = {begin, behind}};
}

// Returns the times of single steps if they are logged, for the same steps; otherwise the averaged series.
Chosen spread_of(const RunLog& log, const Chosen& chosen, std::string& source) {
  const Series* const raw = log.find("train_step_timing_raw in s");
  if (raw == nullptr) return chosen;
  Chosen spread{.text = chosen.text, .points = {}};
  for (const Point& point : chosen.points)
    if (const Point* const single = point_at(*raw, point.step)) spread.points.push_back(*single);
  if (spread.points.empty()) return chosen;
  source = raw->name;
  return spread;
}

// Returns nothing if the mean of the chosen steps is not positive: a log can contain anything.
std::optional<StepTimes> step_times(const RunLog& log, const Series& series, const Chosen& chosen) {
  const double mean = mean_of(chosen.seconds());
  if (!(mean > 0 && std::isfinite(mean))) return std::nullopt;
  std::string spread_source = series.name;
  const std::vector<double> spread = spread_of(log, chosen, spread_source).seconds();
  return StepTimes{.source = series.name,
                   .chosen = chosen.text,
                   .averaged = std::ssize(chosen.points),
                   .first = chosen.points.front().step,
                   .last = chosen.points.back().step,
                   .mean = mean,
                   .spread_source = spread_source,
                   .median = median_of(spread),
                   .least = std::ranges::min(spread),
                   .most = std::ranges::max(spread)};
}

// ---------------------------------------------------------------------------------------------------------------- rates

// Averages over the chosen steps. Each step has the same number of tokens, so the mean of the rates is harmonic.
std::optional<double> logged_tokens_per_second(const RunLog& log, const RunMetrics& metrics) {
  const std::optional<Series> rates = tokens_per_second_from_totals(log);
  if (!rates) return std::nullopt;
  double seconds_per_token = 0;
  int64_t count = 0;
  for (const Point& point : rates->points) {
    if (point.step < metrics.step->first || point.step > metrics.step->last || !(point.value > 0)) continue;
    seconds_per_token += 1 / point.value;
    count += 1;
  }
  return count > 0 ? std::optional(static_cast<double>(count) / seconds_per_token) : std::nullopt;
}

void add_rates(const RunLog& log, RunMetrics& metrics) {
  RunFacts& facts = metrics.facts;
  const bool is_micro_batch = metrics.step->source == kMicroBatchTime;
  if (const std::optional<double> tokens = facts.tokens_per_step(); tokens && !is_micro_batch)
    metrics.tokens_per_second = *tokens / metrics.step->mean;
  else
    metrics.tokens_per_second = logged_tokens_per_second(log, metrics);
  if (is_micro_batch) {
    metrics.notes.push_back(
        fmt::format("\"{}\" is the time of one micro-batch, so no TFLOP/s and no MFU follow from it; the time of a step would "
                    "follow from the "
                    "settings beside the log (batch, micro-batch, devices)",
                    kMicroBatchTime));
    return;
  }
  for (const FlopsBasis& basis : facts.flops)
    if (const std::optional<double> tflops = facts.tflops(metrics.step->mean, basis)) metrics.rates.push_back({basis, *tflops});
  metrics.mfu = facts.mfu(metrics.step->mean);
  if (const std::string text = impossible_mfu_text(metrics.mfu.value_or(0)); !text.empty())
    facts.warnings.push_back(fmt::format("MFU {:.1f}%{}", *metrics.mfu * 100, text));
}

// Adds notes about what is unknown and which option supplies it.
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

// Sets the steps in the log: those of the loss, or of any other series.
void add_steps(const RunLog& log, const std::optional<Series>& loss, RunMetrics& metrics) {
  const std::vector<Point>& points = loss ? loss->points : log.series.front().points;
  metrics.first_step = points.front().step;
  metrics.last_step = points.back().step;
}

// Fills everything except the step times and what depends on them.
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
  const std::optional<Series> seconds =
      choice.is_made() ? reference_step_seconds(log, metrics.facts) : find_quantity(log, metrics.facts, Quantity::step_seconds);
  if (!seconds)
    throw UserError("{} has no step times: neither \"train_step_timing in s\", \"iter_time\" nor \"time/train\"", log.name);
  const Chosen chosen = !choice.is_made()      ? choose_steady(log, *seconds)
                        : choice.steps.empty() ? choose_range(log, *seconds, choice)
                                               : choose_from_list(log, *seconds, choice.steps);
  metrics.step = step_times(log, *seconds, chosen);
  if (!metrics.step)
    throw UserError("{}: the step times of {} have no mean above 0; choose others with --start_step and --end_step", log.name,
                    chosen.text);
  add_rates(log, metrics);
  note_what_is_missing(metrics);
  return metrics;
}

RunMetrics measure_steady(const RunLog& log, const FactOptions& said) {
  RunMetrics metrics = begin_metrics(log, said);
  if (const std::optional<Series> seconds = find_quantity(log, metrics.facts, Quantity::step_seconds))
    metrics.step = step_times(log, *seconds, choose_steady(log, *seconds));
  if (metrics.step) add_rates(log, metrics);
  note_what_is_missing(metrics);
  return metrics;
}

}  // namespace trireme
