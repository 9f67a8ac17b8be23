// The end of a sweep: its runs side by side.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "cli/launch_commands.h"
#include "launch/plan_launch.h"
#include "report/page.h"
#include "report/read_run.h"

namespace trireme {
namespace {

// What distinguishes a point: "micro_batch_size=1, tensor_model_parallel_size=4".
std::string label_of(const SweepPoint& point) {
  std::string label;
  for (const std::string& text : point.overrides) {
    const size_t last_dot = text.substr(0, text.find('=')).rfind('.');
    label += (label.empty() ? "" : ", ") + text.substr(last_dot == std::string::npos ? 0 : last_dot + 1);
  }
  return label;
}

// The logs of the points that ran, each under its label. The others are named on stderr.
std::vector<RunLog> logs_of(const LaunchPlan& plan) {
  std::vector<RunLog> logs;
  for (const SweepPoint& point : plan.sweep) {
    const auto job = std::ranges::find(plan.jobs, point.job, &Job::name);
    if (job == plan.jobs.end()) continue;
    try {
      logs.push_back(read_run(job->run_folder.string()));
      logs.back().name = label_of(point);
    } catch (const UserError& error) {
      fmt::print(stderr, "{} has no figures: {}\n", label_of(point), error.what());
    }
  }
  return logs;
}

}  // namespace

void compare_sweep(const LaunchPlan& plan) {
  std::vector<RunLog> logs = logs_of(plan);
  std::vector<RunMetrics> measured;
  for (const RunLog& log : logs)
    if (const RunMetrics metrics = measure_steady(log, {}); metrics.step) measured.push_back(metrics);
  std::ranges::stable_sort(measured, std::greater{}, [](const RunMetrics& run) { return run.tokens_per_second.value_or(0); });
  if (!measured.empty()) fmt::print("{}\n", comparison_table(measured));
  if (logs.empty()) return;
  const std::filesystem::path page = plan.folder / "report.html";
  atomic_write(page, bytes_of(html_page(make_report(std::move(logs), {}, plan.name))));
  fmt::print("{}\n", page.string());
}

}  // namespace trireme
