#include "telemetry/benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// With many ranks the table shows only the extremes; benchmark.json has all.
constexpr size_t kRanksShown = 8;

std::string rate_text(const Summary& summary, FlopsFormula formula, double tflops) {
  std::string text = fmt::format("{} per device by the {} formula", format_flops(tflops * 1e12), name_of(formula));
  const double mfu = summary.rates.mfu(tflops);
  if (summary.rates.peak.tflops > 0) text += fmt::format(", MFU {:.1f}%{}", mfu * 100, impossible_mfu_text(mfu));
  return text;
}

std::string peak_text(const DevicePeak& peak) {
  if (peak.tflops == 0) return "no MFU: the peak of this device is not known";
  return fmt::format("{} per device ({})", format_flops(peak.tflops * 1e12), peak.name);
}

std::string memory_text(const RunEnd& end) {
  std::string text;
  const size_t shown = std::min(end.ranks.size(), kRanksShown);
  for (size_t i = 0; i < shown; ++i) {
    const RankEnd& rank = end.ranks[i];
    fmt::format_to(std::back_inserter(text), "{}rank {} {}", i == 0 ? "" : ", ", rank.rank,
                   rank.memory_bytes > 0 ? format_bytes(rank.memory_bytes) : "not known");
  }
  if (shown < end.ranks.size()) fmt::format_to(std::back_inserter(text), ", and {} more", end.ranks.size() - shown);
  return text;
}

std::string slowest_rank_text(const Summary& summary) {
  const RankEnd* slowest = summary.slowest_rank();
  if (slowest == nullptr) return "";
  const auto fastest = std::ranges::min_element(summary.end.ranks, {}, &RankEnd::mean_seconds);
  std::string text = fmt::format("rank {}: {} per step", slowest->rank, format_seconds(slowest->mean_seconds));
  if (fastest->mean_seconds > 0 && summary.end.ranks.size() > 1)
    text += fmt::format(", {:.1f}% more than rank {}", (slowest->mean_seconds / fastest->mean_seconds - 1) * 100, fastest->rank);
  return text;
}

std::string measured_text(const Summary& summary) {
  const int64_t warm_up = summary.left_out[static_cast<size_t>(LeftOut::warm_up)];
  const int64_t others = summary.steps - summary.averaged - warm_up;
  std::string text = summary.averaged == 0 ? "0 measured, "
                                           : fmt::format("{} steady steps measured, {} to {}; ", summary.averaged,
                                                         summary.first_averaged, summary.last_averaged);
  text += fmt::format("{} of warm-up left out", warm_up);
  if (others > 0) text += fmt::format(", {} left out for other reasons", others);
  return text;
}

}  // namespace

std::string benchmark_text(const BenchmarkFacts& facts, const Summary& summary) {
  std::string text;
  const auto line = [&](std::string_view label, const std::string& content) {
    if (!content.empty()) fmt::format_to(std::back_inserter(text), "{:<13}{}\n", label, content);
  };
  line("benchmark", fmt::format("{}: {} parameters, {}, {} samples of {} tokens per step, micro-batch {}", facts.recipe,
                                format_count(static_cast<double>(facts.parameters)), facts.precision, facts.global_batch_size,
                                facts.sequence_length, facts.micro_batch_size));
  line("machine",
       fmt::format("{}; {} {}: TP {}, PP {}, DP {}, CP {}", facts.machine, facts.ranks, facts.ranks == 1 ? "rank" : "ranks",
                   facts.tensor_parallel, facts.pipeline_parallel, facts.data_parallel, facts.context_parallel));
  line("steps", measured_text(summary));
  if (summary.averaged > 0) {
    line("step time", fmt::format("mean {}  median {}  min {}  max {}  95th percentile {}", format_seconds(summary.mean_seconds),
                                  format_seconds(summary.median_seconds), format_seconds(summary.least_seconds),
                                  format_seconds(summary.most_seconds), format_seconds(summary.percentile95_seconds)));
    line("speed", fmt::format("{} tokens/s, {} per device", format_count(std::round(summary.tokens_per_second)),
                              format_count(std::round(summary.tokens_per_second / static_cast<double>(summary.rates.devices)))));
    line("rates", rate_text(summary, FlopsFormula::full, summary.tflops_per_device));
    line("", rate_text(summary, FlopsFormula::causal, summary.causal_tflops_per_device));
    line("peak", peak_text(summary.rates.peak));
    line("slowest", slowest_rank_text(summary));
  }
  if (summary.end.prediction) {
    line("plan", summary.end.prediction->text(summary.averaged > 0 ? summary.median_seconds : 0));
    if (const std::string rows = summary.end.prediction->rows_text(); !rows.empty()) line("parts", rows);
  }
  line("memory", memory_text(summary.end));
  if (summary.final_loss) line("loss", fmt::format("{:.4f} after {} steps", *summary.final_loss, summary.steps_done));
  for (const Place& place : summary.end.places) line(place.label, place.path);
  return text;
}

Json benchmark_json(const BenchmarkFacts& facts, const Summary& summary) {
  Json json;
  json["recipe"] = facts.recipe;
  json["command"] = facts.command;
  json["version"] = facts.version;
  json["commit"] = facts.commit;
  json["machine"] = facts.machine;
  json["precision"] = facts.precision;
  json["model"] = {{"parameters", facts.parameters}, {"layers", facts.layers},
                   {"width", facts.width},           {"heads", facts.heads},
                   {"vocabulary", facts.vocabulary}, {"sequence_length", facts.sequence_length}};
  json["batch"] = {{"global", facts.global_batch_size}, {"micro", facts.micro_batch_size}};
  json["layout"] = {{"ranks", facts.ranks},
                    {"tensor_parallel", facts.tensor_parallel},
                    {"pipeline_parallel", facts.pipeline_parallel},
                    {"data_parallel", facts.data_parallel},
                    {"context_parallel", facts.context_parallel}};
  json.update(summary.json());

  // Rates under the name of their formula; null if unknown.
  const auto rates = [&](double flops, double tflops) {
    const bool known = summary.averaged > 0 && flops > 0;
    const bool has_peak = known && summary.rates.peak.tflops > 0;
    return Json{{"flops_per_sample", flops},
                {"tflops_per_device", known ? Json(tflops) : Json()},
                {"mfu", has_peak ? Json(summary.rates.mfu(tflops)) : Json()}};
  };
  json["rates"] = {{"full", rates(summary.rates.flops_per_sample, summary.tflops_per_device)},
                   {"causal", rates(summary.rates.causal_flops_per_sample, summary.causal_tflops_per_device)}};
  json["ranks"] = Json::array();
  for (const RankEnd& rank : summary.end.ranks)
    json["ranks"].push_back(
        {{"rank", rank.rank}, {"mean_step_seconds", rank.mean_seconds}, {"peak_memory_bytes", rank.memory_bytes}});
  const RankEnd* slowest = summary.slowest_rank();
  json["slowest_rank"] = slowest != nullptr ? Json(slowest->rank) : Json();
  json["averaged_step_seconds"] = summary.averaged_seconds;
  return json;
}

}  // namespace trireme
