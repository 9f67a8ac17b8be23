// Formats the figures of `trireme metrics`: the lines of the reference tool, details, a table, JSON.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "report/metrics.h"
#include "telemetry/flops.h"

namespace trireme {
namespace {

std::string step_time_text(const RunMetrics& metrics) {
  const StepTimes& step = *metrics.step;
  const bool same_source = step.spread_source == step.source;
  return fmt::format("{} over {} ({} values of \"{}\"): median {}, least {}, most {}{}", format_seconds(step.mean), step.chosen,
                     step.averaged, step.source, format_seconds(step.median), format_seconds(step.least),
                     format_seconds(step.most), same_source ? "" : fmt::format(" of \"{}\"", step.spread_source));
}

std::string throughput_text(const RunMetrics& metrics) {
  const RunFacts& facts = metrics.facts;
  if (!metrics.tokens_per_second) return "";
  std::string text = fmt::format("{} tokens/s", format_count(*metrics.tokens_per_second));
  if (const std::optional<double> rate = metrics.tokens_per_second_per_device())
    text += fmt::format(", {} per device", format_count(*rate));
  text += fmt::format("; {} samples of {} tokens per step", *facts.batch, *facts.sequence_length);
  if (facts.accelerators)
    text += fmt::format(" on {} device{} (from {})", *facts.accelerators, *facts.accelerators == 1 ? "" : "s",
                        facts.accelerators_from);
  return text;
}

std::string rates_text(const RunMetrics& metrics) {
  std::string text;
  for (const Rate& rate : metrics.rates)
    fmt::format_to(std::back_inserter(text), "{}{} per device by {} ({:.5g} FLOPs per sample)", text.empty() ? "" : "; ",
                   format_flops(rate.tflops * 1e12), formula_text(rate.basis), rate.basis.per_sample);
  return text;
}

std::string peak_text(const RunMetrics& metrics) {
  if (!metrics.mfu) return "";
  const DevicePeak& peak = *metrics.facts.peak;
  const double rate = metrics.rates.front().tflops;
  return fmt::format("MFU {:.2f}% is {} of {} ({}){}", *metrics.mfu * 100, format_flops(rate * 1e12),
                     format_flops(peak.tflops * 1e12), peak.name, impossible_mfu_text(*metrics.mfu));
}

std::string loss_text(const RunMetrics& metrics) {
  if (!metrics.last_loss) return "";
  std::string text = fmt::format("{:.4f} at first, {:.4f} at last", *metrics.first_loss, *metrics.last_loss);
  if (metrics.last_validation_loss) text += fmt::format("; validation {:.4f}", *metrics.last_validation_loss);
  return text;
}

using Row = std::vector<std::string>;

std::string aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line = fmt::format("{:<{}}", row[0], widths[0]);  // names are left-aligned, numbers right-aligned
    for (size_t i = 1; i < row.size(); ++i) fmt::format_to(std::back_inserter(line), "  {:>{}}", row[i], widths[i]);
    text += line + "\n";
  }
  return text;
}

const std::string kNothing = "-";

template <class T>
std::string cell(const std::optional<T>& value, std::string_view format) {
  return value ? fmt::format(fmt::runtime(format), *value) : kNothing;
}

std::string count_cell(const std::optional<double>& count) { return count ? format_count(*count) : kNothing; }

template <class T>
nlohmann::ordered_json json_or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nullptr;
}

nlohmann::ordered_json to_json(const StepTimes& step) {
  return {{"source", step.source},    {"chosen", step.chosen},  {"averaged", step.averaged},           {"mean", step.mean},
          {"first_step", step.first}, {"last_step", step.last}, {"spread_source", step.spread_source}, {"median", step.median},
          {"least", step.least},      {"most", step.most}};
}

}  // namespace

std::string layout_text(const RunFacts& facts) {
  std::string text = facts.layout;
  if (facts.micro_batch) text += fmt::format("{}micro-batch {}", text.empty() ? "" : ", ", *facts.micro_batch);
  if (facts.trained_in != TrainedIn::unknown) text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(facts.trained_in));
  return text;
}

std::string formula_text(const FlopsBasis& basis) {
  const bool is_formula = basis.name == name_of(FlopsFormula::full) || basis.name == name_of(FlopsFormula::causal);
  return is_formula ? fmt::format("the {} formula", basis.name) : basis.name;
}

std::string reference_lines(const RunMetrics& metrics) {
  std::string text = fmt::format("Average step time: {:.8f}\n", metrics.step->mean);
  if (!metrics.rates.empty()) text += fmt::format("TFLOPS/Accelerator: {:.8f}\n", metrics.rates.front().tflops);
  if (metrics.mfu) text += fmt::format("MFU: {:.8f}\n", *metrics.mfu);
  return text;
}

std::string details(const RunMetrics& metrics) {
  std::string text;
  const auto line = [&](std::string_view label, const std::string& content) {
    if (!content.empty()) fmt::format_to(std::back_inserter(text), "{:<12}{}\n", label, content);
  };
  line("run", fmt::format("{}, steps {} to {}", metrics.run, metrics.first_step, metrics.last_step));
  line("loss", loss_text(metrics));
  line("step time", step_time_text(metrics));
  line("throughput", throughput_text(metrics));
  line("layout", layout_text(metrics.facts));
  line("FLOPs", rates_text(metrics));
  line("peak", peak_text(metrics));
  if (metrics.memory_bytes)
    line("memory", fmt::format("{} on one device at most", format_bytes(static_cast<int64_t>(*metrics.memory_bytes))));
  return text;
}

std::string comparison_table(const std::vector<RunMetrics>& runs) {
  std::vector<Row> rows{{"run", "steps", "devices", "batch", "s/step", "of steps", "tokens/s", "per device", "TFLOP/s", "by",
                         "MFU", "of peak", "loss"}};
  for (const RunMetrics& run : runs) {
    Row row{run.run, fmt::format("{}-{}", run.first_step, run.last_step)};
    row.push_back(cell(run.facts.accelerators, "{}"));
    row.push_back(cell(run.facts.batch, "{}"));
    row.push_back(fmt::format("{:.4g}", run.step->mean));
    row.push_back(fmt::format("{} of {}-{}", run.step->averaged, run.step->first, run.step->last));
    row.push_back(count_cell(run.tokens_per_second));
    row.push_back(count_cell(run.tokens_per_second_per_device()));
    row.push_back(run.rates.empty() ? kNothing : fmt::format("{:.4g}", run.rates.front().tflops));
    row.push_back(run.rates.empty() ? kNothing : run.rates.front().basis.name);
    row.push_back(run.mfu ? fmt::format("{:.2f}%", *run.mfu * 100) : kNothing);
    row.push_back(run.mfu ? fmt::format("{:.4g}", run.facts.peak->tflops) : kNothing);
    row.push_back(cell(run.last_loss, "{:.4f}"));
    rows.push_back(std::move(row));
  }
  return aligned(rows);
}

nlohmann::ordered_json to_json(const RunMetrics& metrics) {
  const RunFacts& facts = metrics.facts;
  nlohmann::ordered_json json;
  json["run"] = metrics.run;
  json["first_step"] = metrics.first_step;
  json["last_step"] = metrics.last_step;
  json["first_loss"] = json_or_null(metrics.first_loss);
  json["last_loss"] = json_or_null(metrics.last_loss);
  json["last_validation_loss"] = json_or_null(metrics.last_validation_loss);

  json["step_seconds"] = metrics.step ? to_json(*metrics.step) : nullptr;
  json["tokens_per_second"] = json_or_null(metrics.tokens_per_second);
  json["tflops_per_accelerator"] = metrics.rates.empty() ? nullptr : nlohmann::ordered_json(metrics.rates.front().tflops);
  json["rates"] = nlohmann::ordered_json::array();
  for (const Rate& rate : metrics.rates)
    json["rates"].push_back(
        {{"flops_by", rate.basis.name}, {"flops_per_sample", rate.basis.per_sample}, {"tflops_per_accelerator", rate.tflops}});
  json["mfu"] = json_or_null(metrics.mfu);
  json["peak_tflops"] = facts.peak ? nlohmann::ordered_json(facts.peak->tflops) : nullptr;
  json["peak_name"] = facts.peak ? nlohmann::ordered_json(facts.peak->name) : nullptr;
  json["memory_bytes"] = json_or_null(metrics.memory_bytes);

  json["batch_size"] = json_or_null(facts.batch);
  json["micro_batch_size"] = json_or_null(facts.micro_batch);
  json["sequence_length"] = json_or_null(facts.sequence_length);
  json["num_accelerators"] = json_or_null(facts.accelerators);
  json["layout"] = facts.layout;
  json["trained_in"] = name_of(facts.trained_in);
  json["warnings"] = facts.warnings;
  json["notes"] = metrics.notes;
  return json;
}

}  // namespace trireme
