#include "report/quantities.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace trireme {
namespace {

using Name = QuantityRow::Name;

constexpr std::string_view kReferenceStepTime = "train_step_timing in s";

constexpr std::array kLoss{Name{"reduced_train_loss"}, Name{"train_loss"}, Name{"train_loss_step"}, Name{"loss"}};
constexpr std::array kValidationLoss{Name{"val_loss"}, Name{"validation_loss"}};
constexpr std::array kStepSeconds{Name{"train_step_timing_raw in s"}, Name{kReferenceStepTime}};
constexpr std::array kMicroBatchSeconds{Name{kMicroBatchTime}};
constexpr std::array kTokensPerSecond{Name{"tokens_per_second"}, Name{"throughput/tokens_per_sec"}};
constexpr std::array kTflops{Name{"tflops_per_device"}, Name{"tflops_per_sec_per_gpu"}, Name{"TFLOPS_per_GPU"},
                             Name{"throughput/device/flops_per_sec", 1e-12}, Name{"device/flops_per_sec", 1e-12}};
constexpr std::array kMfu{Name{"mfu"}, Name{"throughput/device/mfu"}, Name{"device/mfu"}};
constexpr std::array kMemory{Name{"peak_memory_usage"}, Name{"memory_allocated"}};
constexpr std::array kLearningRate{Name{"lr"}, Name{"learning_rate"}, Name{"lr-AdamW"}};
constexpr std::array kGradNorm{Name{"grad_norm"}, Name{"gradient_norm"}};

constexpr std::array kQuantities{
    QuantityRow{Quantity::loss, "loss", "Loss", "", kLoss},
    QuantityRow{Quantity::validation_loss, "validation_loss", "Validation loss", "", kValidationLoss},
    QuantityRow{Quantity::step_seconds, "step_seconds", "Step time", "s", kStepSeconds},
    QuantityRow{Quantity::tokens_per_second, "tokens_per_second", "Tokens per second", "tokens/s", kTokensPerSecond},
    QuantityRow{Quantity::tflops, "tflops_per_device", "Arithmetic of one device", "TFLOP/s", kTflops},
    QuantityRow{Quantity::mfu, "mfu", "MFU", "%", kMfu},
    QuantityRow{Quantity::memory, "memory_bytes", "Memory of one device", "B", kMemory},
    QuantityRow{Quantity::learning_rate, "learning_rate", "Learning rate", "", kLearningRate},
    QuantityRow{Quantity::grad_norm, "grad_norm", "Gradient norm", "", kGradNorm},
};
static_assert(kQuantities.size() == static_cast<size_t>(Quantity::count_));

std::optional<Series> logged(const RunLog& log, std::span<const Name> names) {
  for (const Name& name : names) {
    const Series* const found = log.find(name.logged);
    if (found == nullptr) continue;
    Series series = *found;
    if (name.scale != 1)
      for (Point& point : series.points) point.value *= name.scale;
    return series;
  }
  return std::nullopt;
}

// LitGPT logs the seconds since the start of training. Rows may be one or several steps apart.
std::optional<Series> step_seconds_from_elapsed(const RunLog& log) {
  const Series* const elapsed = log.find("time/train");
  if (elapsed == nullptr) return std::nullopt;
  Series series{.name = "differences of time/train", .points = {}};
  for (size_t i = 1; i < elapsed->points.size(); ++i) {
    const Point &before = elapsed->points[i - 1], &now = elapsed->points[i];
    const double seconds = (now.value - before.value) / static_cast<double>(now.step - before.step);
    if (seconds > 0) series.points.push_back({.step = now.step, .value = seconds});  // it restarts at 0 after a resume
  }
  return series.points.empty() ? std::nullopt : std::optional(std::move(series));
}

// iter_time is the time of a micro-batch. The time of a step follows from the tokens if the batch size is known.
std::optional<Series> step_seconds_from_totals(const RunLog& log, const RunFacts& facts) {
  const std::optional<double> tokens = facts.tokens_per_step();
  std::optional<Series> series = tokens ? tokens_per_second_from_totals(log) : std::nullopt;
  if (!series) return std::nullopt;
  std::erase_if(series->points, [](const Point& point) { return !(point.value > 0); });
  for (Point& point : series->points) point.value = *tokens / point.value;
  series->name = "tokens of a step over differences of total_tokens and time";
  return series->points.empty() ? std::nullopt : series;
}

// Scaled to a step if its number of micro-batches is known.
std::optional<Series> step_seconds_from_micro_batches(const RunLog& log, const RunFacts& facts) {
  std::optional<Series> series = logged(log, kMicroBatchSeconds);
  if (!series || !facts.batch || !facts.micro_batch || !facts.accelerators) return series;
  const double micro_batches =
      static_cast<double>(*facts.batch) / static_cast<double>(*facts.micro_batch) / static_cast<double>(*facts.accelerators);
  if (!(micro_batches >= 1)) return series;
  for (Point& point : series->points) point.value *= micro_batches;
  series->name = fmt::format("{} times {:g} micro-batches", kMicroBatchTime, micro_batches);
  return series;
}

// Batch sizes may grow during a run; then they are logged.
double batch_share_at(const Series* batches, const RunFacts& facts, int64_t step) {
  if (batches == nullptr || !facts.batch) return 1;
  const auto found = std::ranges::lower_bound(batches->points, step, {}, &Point::step);
  if (found == batches->points.end() || found->step != step) return 1;
  return found->value / static_cast<double>(*facts.batch);
}

// Computes a rate from the time of each step.
template <class Rate>
std::optional<Series> from_step_seconds(const RunLog& log, const RunFacts& facts, Rate&& rate) {
  std::optional<Series> series = find_quantity(log, facts, Quantity::step_seconds);
  if (!series) return std::nullopt;
  const Series* const batches = log.find("global_batch_size");
  series->name = fmt::format("from {}", series->name);
  std::erase_if(series->points, [](const Point& point) { return !(point.value > 0); });
  for (Point& point : series->points) {
    const std::optional<double> value = rate(point.value);
    if (!value) return std::nullopt;
    point.value = *value * batch_share_at(batches, facts, point.step);
  }
  return series->points.empty() ? std::nullopt : series;
}

std::optional<Series> derived(const RunLog& log, const RunFacts& facts, Quantity quantity) {
  switch (quantity) {
    case Quantity::step_seconds:
      if (std::optional<Series> series = step_seconds_from_elapsed(log)) return series;
      if (std::optional<Series> series = step_seconds_from_totals(log, facts)) return series;
      return step_seconds_from_micro_batches(log, facts);
    case Quantity::tokens_per_second:
      if (std::optional<Series> series = tokens_per_second_from_totals(log)) return series;
      return from_step_seconds(log, facts, [&](double seconds) -> std::optional<double> {
        const std::optional<double> tokens = facts.tokens_per_step();
        return tokens ? std::optional(*tokens / seconds) : std::nullopt;
      });
    case Quantity::tflops:
      return from_step_seconds(log, facts, [&](double seconds) { return facts.tflops(seconds); });
    case Quantity::mfu:
      return from_step_seconds(log, facts, [&](double seconds) { return facts.mfu(seconds); });
    default:
      return std::nullopt;
  }
}

}  // namespace

// Later versions of LitGPT log the tokens of all devices and the seconds since the start of training. Rows are some micro-batches
// apart.
std::optional<Series> tokens_per_second_from_totals(const RunLog& log) {
  const Series *const tokens = log.find("total_tokens"), *const time = log.find("time");
  if (tokens == nullptr || time == nullptr) return std::nullopt;
  Series series{.name = "differences of total_tokens and time", .points = {}};
  std::optional<Point> tokens_before, time_before;
  for (const Point& now : tokens->points) {
    const auto at = std::ranges::lower_bound(time->points, now.step, {}, &Point::step);
    if (at == time->points.end() || at->step != now.step) continue;
    const double seconds = time_before ? at->value - time_before->value : 0;  // negative after a resume, when time restarts
    if (seconds > 0) series.points.push_back({.step = now.step, .value = (now.value - tokens_before->value) / seconds});
    tokens_before = now, time_before = *at;
  }
  return series.points.empty() ? std::nullopt : std::optional(std::move(series));
}

const QuantityRow& row_of(Quantity quantity) {
  const QuantityRow& row = kQuantities[static_cast<size_t>(quantity)];
  CHECK(row.quantity == quantity);
  return row;
}

std::optional<Series> find_quantity(const RunLog& log, const RunFacts& facts, Quantity quantity) {
  if (std::optional<Series> series = logged(log, row_of(quantity).names)) return series;
  return derived(log, facts, quantity);
}

bool is_used_for_quantities(std::string_view name) {
  constexpr std::array<std::string_view, 5> kDerivedFrom{"time/train", "total_tokens", "time", "global_batch_size",
                                                         kMicroBatchTime};
  if (std::ranges::find(kDerivedFrom, name) != kDerivedFrom.end()) return true;
  return std::ranges::any_of(
      kQuantities, [&](const QuantityRow& row) { return std::ranges::find(row.names, name, &Name::logged) != row.names.end(); });
}

std::optional<Series> reference_step_seconds(const RunLog& log, const RunFacts& facts) {
  if (const Series* const series = log.find(kReferenceStepTime)) return *series;
  return find_quantity(log, facts, Quantity::step_seconds);
}

}  // namespace trireme
