// How far predicted step times are from measured ones.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/published_runs.h"

namespace trireme {

// The software profiles and GPUs that runs are timed with, by name.
struct PlannerConstants {
  std::map<std::string, SoftwareProfile> software;
  std::map<std::string, Platform> platforms;

  static PlannerConstants shipped();
  double predict(const PreparedRun& run) const;  // seconds
};
std::vector<SoftwareProfile> profiles_of(const PlannerConstants& constants);

struct ErrorSummary {
  int64_t runs = 0;
  double mean_pct = 0, p90_pct = 0;
};
ErrorSummary summarise(std::vector<double> errors_pct);

struct EvaluatedRun {
  const PreparedRun* run = nullptr;
  std::optional<double> predicted;
  std::optional<double> predicted_gib;  // of memory, where that was planned
  double memory_error_pct() const { return 100 * (*predicted_gib / run->run.memory_gib - 1); }
  double error_pct() const { return 100 * (*predicted / run->run.step_seconds - 1); }
};

struct Evaluation {
  std::vector<EvaluatedRun> rows;
  bool is_scored(const EvaluatedRun& row) const { return row.predicted && row.run->run.use == RunUse::scored; }

  using Chosen = std::function<bool(const PublishedRun&)>;
  ErrorSummary summary(const Chosen& chosen = [](const PublishedRun&) { return true; }) const;  // of scored rows
  std::map<std::string, ErrorSummary> by_profile() const;
  std::map<std::string, ErrorSummary> by_source() const;
  double mean_of_profiles() const;
  std::map<std::string, ErrorSummary> memory_by_source() const;
};

// Plans the memory of the scored rows that have one, if their software does not keep the attention matrix, which this program
// never has. It is that of the tensors, without driver and libraries.
void plan_memory_of(Evaluation& evaluation, const PlannerConstants& constants);

using Predict = std::function<double(const PreparedRun&)>;
Evaluation evaluate(const std::vector<PreparedRun>& runs, const Predict& predict);

// What a constant share of peak per profile predicts, with the share that fits the scored runs of the profile best.
Evaluation evaluate_constant_share(const std::vector<PreparedRun>& runs, const PlannerConstants& constants);

bool is_hopper_or_newer(const PublishedRun& run);

nlohmann::ordered_json json_of(const Evaluation& evaluation);
std::string text_of(const Evaluation& evaluation);

}  // namespace trireme
