#include "plan/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "config/catalogue.h"
#include "config/yaml.h"
#include "plan/nelder_mead.h"
#include "plan/sweeps.h"

namespace trireme {
namespace {

constexpr int kFolds = 5;
constexpr int64_t kLeastRunsToFold = 8;

using Runs = std::vector<const PreparedRun*>;

// Whether a profile has its value of a constant from `owner`.
bool has_from(const SoftwareProfile& software, const std::string& owner, Constant constant) {
  return software.name == owner || (software.shares == owner && !software.fits(constant));
}

struct GpuConstant {
  std::string_view name;
  double GpuModel::*member;
};
constexpr GpuConstant kGpuConstants[] = {{"bf16_share", &GpuModel::bf16_share},
                                         {"fp8_share", &GpuModel::fp8_share},
                                         {"copy_share", &GpuModel::copy_share},
                                         {"tile_us", &GpuModel::tile_us}};

// The constants of one owner, as pointers into a set of constants.
struct FitGroup {
  std::string owner;
  std::vector<std::string> names;
  std::vector<Variable> limits;
  std::function<void(PlannerConstants&, const std::vector<double>&)> assign;
  std::function<bool(const PlannerConstants&, const PreparedRun&)> concerns;
};

// Where every fit begins, whatever the shipped values are. Software that overlaps communication is taken to hide half of it.
double start_of(const SoftwareProfile& profile, Constant constant) {
  constexpr double kHostMicroseconds = 30;
  if (constant == Constant::host) return kHostMicroseconds;
  if (constant == Constant::tp_exposed && profile.overlaps_grad_sync) return 0.5;
  return SoftwareProfile{}[constant];
}
constexpr double kStartShare = 0.8, kStartTileUs = 2;

FitGroup group_of(const SoftwareProfile& profile) {
  FitGroup group{.owner = profile.name};
  for (const Constant constant : profile.fitted) {
    const ConstantRow& row = constant_rows()[static_cast<size_t>(constant)];
    group.names.emplace_back(row.name);
    group.limits.push_back({start_of(profile, constant), row.low, row.high});
  }
  group.assign = [owner = profile.name, fitted = profile.fitted](PlannerConstants& constants, const std::vector<double>& values) {
    for (auto& [name, software] : constants.software)
      for (size_t i = 0; i < fitted.size(); ++i)
        if (has_from(software, owner, fitted[i])) software[fitted[i]] = values[i];
  };
  group.concerns = [owner = profile.name, fitted = profile.fitted](const PlannerConstants& constants, const PreparedRun& run) {
    const SoftwareProfile& software = constants.software.at(run.run.profile);
    return std::ranges::any_of(fitted, [&](Constant constant) { return has_from(software, owner, constant); });
  };
  return group;
}

std::vector<FitGroup> groups_of(const PlannerConstants& constants) {
  std::vector<FitGroup> groups;
  for (const auto& [name, profile] : constants.software)
    if (!profile.fitted.empty()) groups.push_back(group_of(profile));
  std::set<std::string> seen;
  for (const auto& [name, platform] : constants.platforms) {
    const GpuModel& gpu = platform.gpu;
    if (gpu.fitted.empty() || !seen.insert(gpu.name).second) continue;
    FitGroup group{.owner = gpu.name};
    std::vector<double GpuModel::*> members;
    for (const GpuConstant& constant : kGpuConstants)
      if (std::ranges::find(gpu.fitted, constant.name) != gpu.fitted.end()) {
        group.names.emplace_back(constant.name);
        const bool is_share = constant.member != &GpuModel::tile_us;
        group.limits.push_back({is_share ? kStartShare : kStartTileUs, is_share ? 0.3 : 0, is_share ? 1.0 : 10});
        members.push_back(constant.member);
      }
    group.assign = [owner = gpu.name, members](PlannerConstants& all, const std::vector<double>& values) {
      for (auto& [ignored, each] : all.platforms)
        if (each.gpu.name == owner)
          for (size_t i = 0; i < members.size(); ++i) each.gpu.*members[i] = values[i];
    };
    group.concerns = [owner = gpu.name](const PlannerConstants& all, const PreparedRun& run) {
      return all.platforms.at(run.platform).gpu.name == owner;
    };
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<double> values_of(const FitGroup& group) {
  std::vector<double> values;
  for (const Variable& limit : group.limits) values.push_back(limit.value);
  return values;
}

// The mean of the errors, but for small ones of their squares, so that the fit has a slope to follow.
constexpr double kSmallError = 0.01;
double mean_error(const Runs& runs, const PlannerConstants& constants) {
  double sum = 0;
  for (const PreparedRun* run : runs) {
    const double error = constants.predict(*run) / run->run.step_seconds - 1;
    sum += std::sqrt(error * error + kSmallError * kSmallError) - kSmallError;
  }
  return sum / static_cast<double>(std::max<size_t>(runs.size(), 1));
}

Runs scored_runs(const std::vector<PreparedRun>& runs) {
  Runs scored;
  for (const PreparedRun& run : runs)
    if (run.plan_case != nullptr && run.run.use == RunUse::scored) scored.push_back(&run);
  return scored;
}

Runs concerned(const FitGroup& group, const PlannerConstants& constants, const Runs& runs) {
  Runs chosen;
  for (const PreparedRun* run : runs)
    if (group.concerns(constants, *run)) chosen.push_back(run);
  return chosen;
}

struct Fit {
  PlannerConstants constants;
  std::vector<FitGroup> groups;  // with the fitted values
};

Fit fit(const Runs& runs, PlannerConstants constants, int rounds) {
  constexpr int kEvaluationsPerConstant = 60;
  std::vector<FitGroup> groups = groups_of(constants);
  std::erase_if(groups, [&](const FitGroup& group) { return concerned(group, constants, runs).empty(); });
  for (const FitGroup& group : groups) group.assign(constants, values_of(group));
  for (int round = 0; round < rounds; ++round)
    for (FitGroup& group : groups) {
      const Runs chosen = concerned(group, constants, runs);
      const std::vector<double> best = minimise(
          group.limits,
          [&](const std::vector<double>& values) {
            group.assign(constants, values);
            return mean_error(chosen, constants);
          },
          kEvaluationsPerConstant * static_cast<int>(group.limits.size()));
      for (size_t i = 0; i < best.size(); ++i) group.limits[i].value = best[i];
      group.assign(constants, best);
    }
  return {std::move(constants), std::move(groups)};
}

// Each model on each number of GPUs is in one fold of its profile. Returns -1 for runs of profiles that are too small.
std::map<const PreparedRun*, int> folds_of(const Runs& runs) {
  std::map<std::string, int64_t> sizes;
  for (const PreparedRun* run : runs) sizes[run->run.profile] += 1;
  std::map<std::string, std::map<std::pair<std::string, int64_t>, int>> known;
  std::map<const PreparedRun*, int> folds;
  for (const PreparedRun* run : runs) {
    if (sizes[run->run.profile] < kLeastRunsToFold) {
      folds[run] = -1;
      continue;
    }
    auto& groups = known[run->run.profile];
    const auto [at, is_new] = groups.try_emplace({run->run.model, run->run.gpus}, static_cast<int>(groups.size()) % kFolds);
    folds[run] = at->second;
  }
  return folds;
}

Evaluation cross_validate(const std::vector<PreparedRun>& all, const PlannerConstants& start, int rounds) {
  const Runs runs = scored_runs(all);
  const std::map<const PreparedRun*, int> folds = folds_of(runs);
  std::map<const PreparedRun*, double> predicted;
  for (int fold = 0; fold < kFolds; ++fold) {
    Runs kept;
    for (const PreparedRun* run : runs)
      if (folds.at(run) != fold) kept.push_back(run);
    const PlannerConstants constants = fit(kept, start, rounds).constants;
    for (const PreparedRun* run : runs)
      if (folds.at(run) == fold) predicted[run] = constants.predict(*run);
  }
  Evaluation evaluation;
  for (const PreparedRun* run : runs)
    if (predicted.contains(run)) evaluation.rows.push_back({.run = run, .predicted = predicted[run]});
  return evaluation;
}

std::string with_value(Tree& file, const std::string& key, double value) {
  file.set(key, Tree(std::round(value * 1e4) / 1e4));
  return write_yaml(file);
}

}  // namespace

Calibration calibrate(const std::vector<PreparedRun>& runs, PlannerConstants constants, int rounds) {
  const Runs scored = scored_runs(runs);
  Calibration result;
  result.constant_share = evaluate_constant_share(runs, constants);
  result.cross_validation = cross_validate(runs, constants, rounds);
  Fit best = fit(scored, std::move(constants), rounds);
  result.constants = std::move(best.constants);
  result.fitted = evaluate(runs, [&](const PreparedRun& run) { return result.constants.predict(run); });
  for (const FitGroup& group : best.groups) {
    const int64_t count = std::ssize(concerned(group, result.constants, scored));
    for (size_t i = 0; i < group.names.size(); ++i)
      result.free.push_back({.owner = group.owner, .name = group.names[i], .value = group.limits[i].value, .runs = count});
  }
  return result;
}

std::string report_of(const Calibration& calibration) {
  std::string text =
      fmt::format("{:<26} {:<12} {:>8} {:>6} {:>18}\n", "constant of", "name", "value", "runs", "runs per constant");
  for (const FreeConstant& constant : calibration.free) {
    const auto same = std::ranges::count(calibration.free, constant.owner, &FreeConstant::owner);
    text += fmt::format("{:<26} {:<12} {:>8.4f} {:>6} {:>18.1f}\n", constant.owner, constant.name, constant.value, constant.runs,
                        static_cast<double>(constant.runs) / static_cast<double>(same));
  }
  for (const auto& [name, profile] : calibration.constants.software)
    if (!profile.shares.empty())
      text += fmt::format("{:<26} has {}constants of {}\n", name, profile.fitted.empty() ? "the " : "the other ", profile.shares);
  text +=
      fmt::format("\n{} free constants\n\nfitted, and a constant share of peak per profile beside it\n", calibration.free.size());
  text +=
      fmt::format("{:<42} {:>5} {:>7} {:>7} {:>7} {:>7}\n", "error of the step time, %", "runs", "mean", "p90", "share", "p90");
  const auto add = [&](const std::string& name, const ErrorSummary& ours, const ErrorSummary& share) {
    text += fmt::format("{:<42} {:>5} {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f}\n", name, ours.runs, ours.mean_pct, ours.p90_pct,
                        share.mean_pct, share.p90_pct);
  };
  const Evaluation &ours = calibration.fitted, &share = calibration.constant_share;
  const auto share_profiles = share.by_profile(), share_sources = share.by_source();
  for (const auto& [name, summary] : ours.by_profile()) add(name, summary, share_profiles.at(name));
  text += "\n";
  for (const auto& [name, summary] : ours.by_source()) add(name, summary, share_sources.at(name));
  text += "\n";
  add("all scored runs", ours.summary(), share.summary());
  add("Hopper and newer", ours.summary(is_hopper_or_newer), share.summary(is_hopper_or_newer));
  text += fmt::format("{:<42} {:>5} {:>7.2f} {:>7} {:>7.2f}\n", "mean of the profiles", "", ours.mean_of_profiles(), "",
                      share.mean_of_profiles());
  if (const std::string sweeps = text_of(sweeps_of(ours)); !sweeps.empty()) text += "\n" + sweeps;
  text += "\nfive-fold cross-validation by (model, GPUs), profiles of 8 runs or more; all constants fitted without the fold\n";
  for (const auto& [name, summary] : calibration.cross_validation.by_profile())
    text += fmt::format("{:<42} {:>5} {:>7.2f} {:>7.2f}\n", name, summary.runs, summary.mean_pct, summary.p90_pct);
  const ErrorSummary all = calibration.cross_validation.summary();
  return text + fmt::format("{:<42} {:>5} {:>7.2f} {:>7.2f}\n", "all", all.runs, all.mean_pct, all.p90_pct);
}

void write_constants(const Calibration& calibration, const std::string& folder) {
  namespace fs = std::filesystem;
  fs::create_directories(fs::path(folder) / "profiles");
  fs::create_directories(fs::path(folder) / "hardware" / "gpus");
  std::map<std::pair<std::string, std::string>, Tree> files;  // by catalogue and name
  for (const FreeConstant& constant : calibration.free) {
    const bool is_profile = calibration.constants.software.contains(constant.owner);
    const std::string catalogue = is_profile ? "profiles" : "hardware/gpus";
    auto [file, is_new] = files.try_emplace({catalogue, constant.owner});
    if (is_new) file->second = read_yaml_file(find_in_catalogue(catalogue, constant.owner, "").string());
    const std::string text = with_value(file->second, (is_profile ? "constants." : "") + constant.name, constant.value);
    atomic_write(fs::path(folder) / catalogue / (constant.owner + ".yaml"), std::as_bytes(std::span(text)));
  }
}

}  // namespace trireme
