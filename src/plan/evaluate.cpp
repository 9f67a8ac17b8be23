#include "plan/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/catalogue.h"
#include "plan/layout_search.h"

namespace trireme {
namespace {

double peak_flops(const PreparedRun& run, const PlannerConstants& constants) {
  const GpuModel& gpu = constants.platforms.at(run.platform).gpu;
  const bool is_fp8 = run.plan_case->settings.model.fp8.enabled;
  return static_cast<double>(run.run.gpus) * 1e12 * (is_fp8 ? gpu.fp8_tflops : gpu.bf16_tflops);
}

std::vector<double> absolute_errors(const Evaluation& evaluation, const Evaluation::Chosen& chosen) {
  std::vector<double> errors;
  for (const EvaluatedRun& row : evaluation.rows)
    if (evaluation.is_scored(row) && chosen(row.run->run)) errors.push_back(std::abs(row.error_pct()));
  return errors;
}

std::map<std::string, ErrorSummary> grouped(const Evaluation& evaluation, std::string PublishedRun::*key) {
  std::map<std::string, ErrorSummary> groups;
  for (const EvaluatedRun& row : evaluation.rows) {
    const std::string& name = row.run->run.*key;
    if (evaluation.is_scored(row) && !groups.contains(name))
      groups[name] = evaluation.summary([&](const PublishedRun& run) { return run.*key == name; });
  }
  return groups;
}

nlohmann::ordered_json json_of(const ErrorSummary& summary) {
  return {{"runs", summary.runs}, {"mean_error_pct", summary.mean_pct}, {"p90_error_pct", summary.p90_pct}};
}

}  // namespace

PlannerConstants PlannerConstants::shipped() {
  PlannerConstants constants;
  for (const std::string& name : catalogue_names("profiles")) constants.software[name] = load_software_profile(name);
  for (const std::string& name : catalogue_names("hardware")) constants.platforms[name] = load_platform(name);
  return constants;
}

std::vector<SoftwareProfile> profiles_of(const PlannerConstants& constants) {
  std::vector<SoftwareProfile> profiles;
  for (const auto& [name, profile] : constants.software) profiles.push_back(profile);
  return profiles;
}

double PlannerConstants::predict(const PreparedRun& run) const {
  return step_time(*run.plan_case, platforms.at(run.platform), software.at(run.run.profile)).total;
}

ErrorSummary summarise(std::vector<double> errors) {
  if (errors.empty()) return {};
  std::ranges::sort(errors);
  double sum = 0;
  for (const double error : errors) sum += error;
  const auto count = static_cast<double>(errors.size());
  const auto at = static_cast<size_t>(std::ceil(0.9 * count)) - 1;
  return {.runs = std::ssize(errors), .mean_pct = sum / count, .p90_pct = errors[at]};
}

ErrorSummary Evaluation::summary(const Chosen& chosen) const { return summarise(absolute_errors(*this, chosen)); }
std::map<std::string, ErrorSummary> Evaluation::by_profile() const { return grouped(*this, &PublishedRun::profile); }
std::map<std::string, ErrorSummary> Evaluation::by_source() const { return grouped(*this, &PublishedRun::source); }

std::map<std::string, ErrorSummary> Evaluation::memory_by_source() const {
  std::map<std::string, std::vector<double>> errors;
  for (const EvaluatedRun& row : rows)
    if (row.predicted_gib) errors[row.run->run.source].push_back(std::abs(row.memory_error_pct()));
  std::map<std::string, ErrorSummary> sources;
  for (const auto& [source, values] : errors) sources[source] = summarise(values);
  return sources;
}

void plan_memory_of(Evaluation& evaluation, const PlannerConstants& constants) {
  for (EvaluatedRun& row : evaluation.rows) {
    const PublishedRun& run = row.run->run;
    if (!evaluation.is_scored(row) || run.memory_gib == 0) continue;
    if (constants.software.at(run.profile).attention != AttentionKernel::flash) continue;
    Settings settings = with_short_step(row.run->plan_case->settings);
    settings.model.optim.grad_sync_dtype = SyncType::f32;  // only this program keeps a copy of the gradients to sum them in bf16
    const TargetPlan plan = plan_for_target(settings, gpu_kind_of(constants.platforms.at(row.run->platform)));
    row.predicted_gib = static_cast<double>(plan.total - plan.rows.back().second) / std::exp2(30);
  }
}

double Evaluation::mean_of_profiles() const {
  const auto profiles = by_profile();
  double sum = 0;
  for (const auto& [name, summary] : profiles) sum += summary.mean_pct;
  return profiles.empty() ? 0 : sum / static_cast<double>(profiles.size());
}

Evaluation evaluate(const std::vector<PreparedRun>& runs, const Predict& predict) {
  Evaluation evaluation;
  for (const PreparedRun& run : runs) {
    EvaluatedRun row{.run = &run, .predicted = std::nullopt};
    if (run.plan_case != nullptr) row.predicted = predict(run);
    evaluation.rows.push_back(row);
  }
  return evaluation;
}

Evaluation evaluate_constant_share(const std::vector<PreparedRun>& runs, const PlannerConstants& constants) {
  const auto ideal = [&](const PreparedRun& run) { return run.model_flops / peak_flops(run, constants); };
  std::map<std::string, std::vector<double>> shares;  // of the scored runs
  for (const PreparedRun& run : runs)
    if (run.plan_case != nullptr && run.run.use == RunUse::scored)
      shares[run.run.profile].push_back(ideal(run) / run.run.step_seconds);
  std::map<std::string, double> best;
  for (const auto& [profile, candidates] : shares) {
    // The sum of |share of the run / share - 1| bends only at the shares of the runs, so one of them is the best.
    double least = 0;
    for (const double candidate : candidates) {
      double sum = 0;
      for (const double share : candidates) sum += std::abs(share / candidate - 1);
      if (best.contains(profile) && sum >= least) continue;
      best[profile] = candidate, least = sum;
    }
  }
  return evaluate(runs, [&](const PreparedRun& run) {
    const auto share = best.find(run.run.profile);
    return share == best.end() ? run.run.step_seconds : ideal(run) / share->second;
  });
}

bool is_hopper_or_newer(const PublishedRun& run) { return !run.gpu.starts_with("A100"); }

nlohmann::ordered_json json_of(const Evaluation& evaluation) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array(), profiles = nlohmann::ordered_json::object();
  for (const EvaluatedRun& row : evaluation.rows) {
    const PublishedRun& run = row.run->run;
    nlohmann::ordered_json predicted = nullptr, error = nullptr, memory = nullptr;
    if (row.predicted_gib)
      memory = {{"predicted_gib", *row.predicted_gib}, {"measured_gib", run.memory_gib}, {"error_pct", row.memory_error_pct()}};
    if (row.predicted) predicted = *row.predicted, error = row.error_pct();
    rows.push_back({{"source", run.source},
                    {"model", run.model},
                    {"gpus", run.gpus},
                    {"predicted_s", predicted},
                    {"measured_s", run.step_seconds},
                    {"error_pct", error},
                    {"profile", run.profile},
                    {"line", run.line},
                    {"scored", evaluation.is_scored(row)},
                    {"memory", memory},
                    {"missing", run.missing.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(run.missing)}});
  }
  for (const auto& [name, summary] : evaluation.by_profile()) profiles[name] = json_of(summary);
  nlohmann::ordered_json memory = nlohmann::ordered_json::object();
  for (const auto& [name, summary] : evaluation.memory_by_source()) memory[name] = json_of(summary);
  return {{"summary", json_of(evaluation.summary())}, {"profiles", profiles}, {"memory", memory}, {"rows", rows}};
}

std::string text_of(const Evaluation& evaluation) {
  std::string text = fmt::format("{:<26} {:>5} {:>7} {:>7}\n", "error of the step time, %", "runs", "mean", "p90");
  const auto add = [&](const std::string& name, const ErrorSummary& summary) {
    text += fmt::format("{:<26} {:>5} {:>7.1f} {:>7.1f}\n", name, summary.runs, summary.mean_pct, summary.p90_pct);
  };
  for (const auto& [name, summary] : evaluation.by_profile()) add(name, summary);
  add("all scored runs", evaluation.summary());
  add("Hopper and newer", evaluation.summary(is_hopper_or_newer));
  text += fmt::format("{:<26} {:>5} {:>7.1f}\n", "mean of the profiles", "", evaluation.mean_of_profiles());
  for (const auto& [name, summary] : evaluation.memory_by_source()) add("memory: " + name, summary);
  return text;
}

}  // namespace trireme
