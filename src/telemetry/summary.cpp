#include "telemetry/summary.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/median.h"

namespace trireme {
namespace {

// Returns the smallest value v such that at least this share of the values is <= v.
double percentile(const std::vector<double>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace

const char* name_of(LeftOut reason) {
  static constexpr std::array<const char*, kLeftOutReasons> kNames{"skipped", "profiled", "warm-up", "after a validation",
                                                                   "after a checkpoint"};
  return kNames[static_cast<size_t>(reason)];
}

SummarySink::SummarySink(const RateBasis& rates, int64_t planned_steps, const Clock& clock) : wall_(clock) {
  summary_.rates = rates;
  constexpr int64_t kMostReserved = 1 << 20;
  summary_.averaged_seconds.reserve(static_cast<size_t>(std::min(planned_steps, kMostReserved)));
}

void SummarySink::step(const StepRecord& record) {
  summary_.steps += 1;
  summary_.steps_done = record.step + 1;
  summary_.consumed_samples = record.consumed_samples;
  summary_.tokens += record.tokens;
  if (!record.skipped) summary_.final_loss = record.loss;
  summary_.loss_scale = record.loss_scale;

  if (const std::optional<LeftOut> reason = record.left_out()) {
    summary_.left_out[static_cast<size_t>(*reason)] += 1;
    return;
  }
  if (summary_.averaged_seconds.empty()) summary_.first_averaged = record.step;
  summary_.last_averaged = record.step;
  summary_.averaged_seconds.push_back(record.step_seconds);
  if (record.data_wait_seconds > 0) summary_.data_wait_steps += 1;
  summary_.data_wait_seconds += record.data_wait_seconds;
  averaged_tokens_ += record.tokens;
  averaged_samples_ += record.global_batch_size;
}

double SummarySink::mean_seconds() const {
  const std::vector<double>& seconds = summary_.averaged_seconds;
  return seconds.empty() ? 0 : std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

Summary SummarySink::summary(const RunEnd& end) const {
  Summary result = summary_;
  result.end = end;
  result.wall_seconds = wall_.seconds();
  result.averaged = static_cast<int64_t>(result.averaged_seconds.size());
  if (result.averaged == 0) return result;

  std::vector<double> sorted = result.averaged_seconds;
  std::ranges::sort(sorted);
  const double seconds = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  result.mean_seconds = seconds / static_cast<double>(sorted.size());
  result.median_seconds = median(sorted);
  result.percentile95_seconds = percentile(sorted, 0.95);
  result.least_seconds = sorted.front();
  result.most_seconds = sorted.back();
  result.tokens_per_second = seconds > 0 ? static_cast<double>(averaged_tokens_) / seconds : 0;
  result.tflops_per_device = result.rates.tflops_per_device(static_cast<double>(averaged_samples_), seconds);
  result.mfu = result.rates.mfu(result.tflops_per_device);
  if (result.rates.flops_per_sample > 0)
    result.causal_tflops_per_device =
        result.tflops_per_device * result.rates.causal_flops_per_sample / result.rates.flops_per_sample;
  return result;
}

const RankEnd* Summary::slowest_rank() const {
  const auto slowest = std::ranges::max_element(end.ranks, {}, &RankEnd::mean_seconds);
  return slowest == end.ranks.end() ? nullptr : &*slowest;
}

int64_t Summary::most_memory() const {
  int64_t most = 0;
  for (const RankEnd& rank : end.ranks) most = std::max(most, rank.memory_bytes);
  return most;
}

void write_report(const nlohmann::ordered_json& report, const std::string& path, const Notify& notify) {
  try {
    atomic_write(path, bytes_of(json_text(report) + "\n"));
  } catch (const Failure& failure) {
    if (notify) notify(Severity::warning, failure.what());
  }
}

}  // namespace trireme
