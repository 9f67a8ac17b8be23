#include "plan/sweeps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace trireme {
namespace {

constexpr size_t kLeastRuns = 5;  // fewer say little about an order

// The place of each value in rising order; equal values share the mean of their places.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<double> ranks;
  for (const double value : values) {
    const auto below = std::ranges::count_if(values, [&](double other) { return other < value; });
    const auto equal = std::ranges::count(values, value);
    ranks.push_back(static_cast<double>(below) + static_cast<double>(equal - 1) / 2);
  }
  return ranks;
}

double correlation_of(const std::vector<double>& a, const std::vector<double>& b) {
  const auto count = static_cast<double>(a.size());
  double mean_a = 0, mean_b = 0, ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) mean_a += a[i] / count, mean_b += b[i] / count;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a), bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

std::string layout_of(const PublishedRun& run) {
  return fmt::format("TP {} PP {} VP {} DP {} mbs {}{}", run.tp, run.pp, run.vp, run.data_parallel(), run.micro_batch,
                     run.recompute.empty() ? "" : ", recompute " + run.recompute);
}

Sweep sweep_of(const std::vector<const EvaluatedRun*>& rows) {
  std::vector<double> predicted, measured;
  for (const EvaluatedRun* row : rows) predicted.push_back(*row->predicted), measured.push_back(row->run->run.step_seconds);
  const auto chosen = static_cast<size_t>(std::ranges::min_element(predicted) - predicted.begin());
  const auto fastest = static_cast<size_t>(std::ranges::min_element(measured) - measured.begin());
  const PublishedRun& run = rows.front()->run->run;
  return {.source = run.source,
          .model = run.model,
          .gpus = run.gpus,
          .global_batch = run.global_batch,
          .runs = std::ssize(rows),
          .rank_correlation = correlation_of(ranks_of(predicted), ranks_of(measured)),
          .loss_pct = 100 * (measured[chosen] / measured[fastest] - 1),
          .chosen = layout_of(rows[chosen]->run->run),
          .fastest = layout_of(rows[fastest]->run->run)};
}

}  // namespace

std::vector<Sweep> sweeps_of(const Evaluation& evaluation) {
  using Key = std::tuple<std::string, std::string, std::string, int64_t, int64_t, std::string>;
  std::map<Key, std::vector<const EvaluatedRun*>> groups;
  for (const EvaluatedRun& row : evaluation.rows) {
    const PublishedRun& run = row.run->run;
    if (evaluation.is_scored(row))
      groups[{run.profile, run.source, run.model, run.gpus, run.global_batch, run.precision}].push_back(&row);
  }
  std::vector<Sweep> sweeps;
  for (const auto& [key, rows] : groups)
    if (rows.size() >= kLeastRuns) sweeps.push_back(sweep_of(rows));
  return sweeps;
}

nlohmann::ordered_json json_of(const std::vector<Sweep>& sweeps) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Sweep& sweep : sweeps)
    rows.push_back({{"source", sweep.source},
                    {"model", sweep.model},
                    {"gpus", sweep.gpus},
                    {"global_batch_size", sweep.global_batch},
                    {"runs", sweep.runs},
                    {"rank_correlation", sweep.rank_correlation},
                    {"loss_pct", sweep.loss_pct},
                    {"chosen", sweep.chosen},
                    {"fastest", sweep.fastest}});
  return rows;
}

std::string text_of(const std::vector<Sweep>& sweeps) {
  if (sweeps.empty()) return "";
  std::string text = fmt::format("{:<14} {:>5} {:>6} {:>5} {:>11}  {:>9}  {}\n", "layouts of", "GPUs", "batch", "runs",
                                 "rank corr.", "slower, %", "predicted fastest; measured fastest");
  for (const Sweep& sweep : sweeps)
    text += fmt::format("{:<14} {:>5} {:>6} {:>5} {:>11.2f}  {:>9.1f}  {}{}\n", sweep.model, sweep.gpus, sweep.global_batch,
                        sweep.runs, sweep.rank_correlation, sweep.loss_pct, sweep.chosen,
                        sweep.chosen == sweep.fastest ? "; the same" : "; " + sweep.fastest);
  return text;
}

}  // namespace trireme
