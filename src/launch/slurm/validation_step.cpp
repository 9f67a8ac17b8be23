#include "launch/slurm/validation_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "launch/job.h"
#include "launch/slurm/step.h"

namespace trireme {
namespace {

bool is_in(const SlurmNode& node, const std::string& partition) {
  return std::ranges::find(node.partitions, partition) != node.partitions.end();
}

std::string partition_of(const SlurmValidation& request, const SlurmSite& site) {
  if (!request.options.partition.empty()) return request.options.partition;
  const auto found = std::ranges::find_if(site.partitions, &SlurmPartition::is_default);
  return found == site.partitions.end() ? "" : found->name;
}

volatile std::sig_atomic_t stop_signal = 0;

}  // namespace

SlurmValidationPlan plan_validation(const SlurmValidation& request, const SlurmSite& site) {
  if (!site.unknown.empty()) throw UserError("{}", site.unknown);
  const std::string partition = partition_of(request, site);
  int64_t usable = 0, gpus = 0;
  for (const SlurmNode& node : site.nodes) {
    if (!is_in(node, partition)) continue;
    usable += is_usable(node) ? 1 : 0;
    gpus = std::max(gpus, node.gpus);
  }
  LaunchOptions options = request.options;
  options.requeue = false, options.signal_before = 0;  // nothing is saved
  SlurmValidationPlan plan;
  if (options.nodes == 0 && options.nodelist.empty()) {
    options.nodes = usable;
    plan.choices.push_back({fmt::format("--nodes={}", usable), "all usable nodes of partition " + partition});
  }
  const int64_t ranks = request.ranks_per_node > 0 ? request.ranks_per_node : std::max<int64_t>(gpus, 1);
  const Job job{
      .name = "trireme-validate", .nodes = std::max<int64_t>(options.nodes, 1), .ranks_per_node = ranks, .has_gpus = gpus > 0};
  const SlurmRun run = choose_run(site, options, job);
  plan.choices.insert(plan.choices.end(), run.choices.begin(), run.choices.end());
  plan.words = {"srun", "--label", "--job-name=" + job.name, fmt::format("--ntasks-per-node={}", ranks), "--mpi=" + run.mpi};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) plan.words.push_back(fmt::format("--{}={}", name, value));
  };
  if (options.nodes > 0) add("nodes", std::to_string(options.nodes));
  add("nodelist", options.nodelist);
  add("exclude", options.exclude);
  add("partition", options.partition);
  add("account", options.account);
  add("reservation", options.reservation);
  add("time", options.time);
  if (run.gpus_per_node > 0) add("gpus-per-node", std::to_string(run.gpus_per_node));
  if (run.cpus_per_task > 0) add("cpus-per-task", std::to_string(run.cpus_per_task));
  plan.words.emplace_back("--exclusive");
  plan.words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  plan.words.emplace_back("validate");
  plan.words.insert(plan.words.end(), request.checks.begin(), request.checks.end());
  plan.words.emplace_back("--output");
  plan.words.push_back(request.folder.string());
  return plan;
}

int run_validation_step(const SlurmValidation& request, const SlurmValidationPlan& plan) {
  create_folders(request.folder);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, [](int number) { stop_signal = number; });
  bool was_told = false;
  const StepEnd end = run_step(plan.words, request.folder, [&](bool) {
    if (stop_signal == 0 || was_told) return 0;
    was_told = true;
    return SIGTERM;
  });
  if (was_told) throw Failure("stopped before the checks had ended");
  const bool has_verdict = end.status == kDone || (end.messages.first_failure() && !end.messages.could_not_start());
  if (!has_verdict) {
    const std::string reason = end.messages.reason();
    throw Failure("Slurm did not run the checks: {}",
                  reason.empty() ? fmt::format("srun ended with status {}", end.status) : reason);
  }
  return end.status;
}

}  // namespace trireme
