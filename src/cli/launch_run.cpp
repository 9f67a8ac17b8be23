// trireme launch TARGET RECIPE: from the checks to the end of the run.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/subprocess.h"
#include "cli/launch_commands.h"
#include "launch/launch_record.h"
#include "launch/plan_launch.h"
#include "launch/user_variables.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string command_text(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string size_text(const Job& job) {
  if (!job.tasks.empty()) return fmt::format("{} tasks", job.tasks.size());
  return fmt::format("{} node{} x {} rank{}", job.nodes, job.nodes == 1 ? "" : "s", job.ranks_per_node,
                     job.ranks_per_node == 1 ? "" : "s");
}

void print_plan(const LaunchPlan& plan, const Submission& submission) {
  fmt::print("launch  {} on {}\n", plan.name, name_of(plan.request.target));
  for (const Job& job : plan.jobs) fmt::print("job     {}: {}, {}\n", job.name, name_of(job.stage), size_text(job));
  for (const SweepPoint& point : plan.sweep)
    fmt::print("sweep   {}: {}\n", fmt::join(point.overrides, " "), point.job.empty() ? "left out: " + point.reason : point.job);
  for (const auto* choices : {&plan.choices, &submission.choices})
    for (const LaunchChoice& choice : *choices) fmt::print("choice  {} ({})\n", choice.what, choice.why);
}

void print_dry_run(const LaunchPlan& plan, const Submission& submission) {
  print_plan(plan, submission);
  for (const auto* files : {&plan.files, &submission.files})
    for (const SubmissionFile& file : *files) fmt::print("file    {}\n{}\n", file.path.string(), file.text);
  for (const auto& command : submission.commands) fmt::print("run     {}\n", command_text(command));
}

nlohmann::ordered_json json_of(const LaunchPlan& plan, const Submission& submission) {
  nlohmann::ordered_json json = {{"name", plan.name}, {"target", name_of(plan.request.target)}, {"folder", plan.folder.string()}};
  json["jobs"] = nlohmann::ordered_json::array();
  for (const Job& job : plan.jobs)
    json["jobs"].push_back({{"name", job.name},
                            {"stage", name_of(job.stage)},
                            {"nodes", job.nodes},
                            {"ranks_per_node", job.ranks_per_node},
                            {"command", job.command},
                            {"tasks", job.tasks.size()}});
  json["choices"] = nlohmann::ordered_json::array();
  for (const auto* choices : {&plan.choices, &submission.choices})
    for (const LaunchChoice& choice : *choices) json["choices"].push_back({{"what", choice.what}, {"why", choice.why}});
  json["sweep"] = nlohmann::ordered_json::array();
  for (const SweepPoint& point : plan.sweep)
    json["sweep"].push_back({{"overrides", point.overrides}, {"job", point.job}, {"reason", point.reason}});
  json["files"] = nlohmann::ordered_json::array();
  for (const auto* files : {&plan.files, &submission.files})
    for (const SubmissionFile& file : *files) json["files"].push_back({{"path", file.path.string()}, {"text", file.text}});
  json["commands"] = submission.commands;
  return json;
}

bool is_alive(JobPhase phase) { return phase == JobPhase::waiting || phase == JobPhase::running; }

// A name belongs to one launch. Without --name the next free number is taken; a name that the user gave is not changed.
void require_free_name(LaunchPlan& plan, LaunchTarget& target, const LaunchRequest& given) {
  std::error_code failed;
  if (is_in_pod() || !fs::exists(plan.folder / "launch.json", failed)) return;
  const LaunchRecord record = read_record(plan.folder);
  for (const JobRecord& job : record.jobs) {
    const JobStatus status = target.status(job);
    if (is_alive(status.phase))
      throw UserError("{} is in use: {} ({}) of {} on {}, launched {}; trireme launch --stop {} frees it", plan.name, job.id,
                      name_of(status.phase), record.user, record.host, record.launched, plan.folder.string());
  }
  if (given.options.values.resume) return;
  throw UserError("{} is the name of a launch of {}; --resume continues it, --name NAME starts another one", plan.name,
                  record.launched);
}

// demo, demo-2, demo-3, ...: the first name without a launch, where the command gives none.
std::string free_name(const LaunchPlan& plan) {
  std::error_code failed;
  std::string name = plan.name;
  if (is_in_pod()) return name;
  for (int number = 2; fs::exists(plan.folder.parent_path() / name, failed); ++number)
    name = fmt::format("{}-{}", plan.name, number);
  return name;
}

void write_files(const std::vector<SubmissionFile>& files) {
  for (const SubmissionFile& file : files) {
    create_folders(file.path.parent_path());
    atomic_write(file.path, bytes_of(file.text));
    if (file.is_executable) fs::permissions(file.path, fs::perms::owner_exec | fs::perms::group_exec, fs::perm_options::add);
  }
}

LaunchRecord record_of(const LaunchPlan& plan, std::vector<JobRecord> jobs) {
  LaunchRecord record{.name = plan.name,
                      .target = plan.request.target,
                      .launched = {},
                      .host = host_name(),
                      .user = user_name(),
                      .folder = plan.folder,
                      .jobs = std::move(jobs)};
  append_local_time(record.launched, system_clock().unix_microseconds());
  record.launched.resize(std::string_view("2026-01-01 00:00:00").size());
  return record;
}

// The commands of the site around a launch, on this machine: a fleet that is started before and stopped after.
void run_site_commands(const std::vector<std::string>& commands, std::string_view when) {
  constexpr int64_t kMostOutput = 1 << 20;
  for (const std::string& command : commands) {
    fmt::print(stderr, "{}  {}\n", when, command);
    const CommandOutput result = run_command({"/bin/sh", "-c", command}, kMostOutput);
    if (result.status != 0)
      throw Failure("{} {}: exit status {}{}{}", when, command, result.status, result.errors.empty() ? "" : ": ", result.errors);
  }
}

int submit_and_follow(LaunchPlan& plan, const Submission& submission, LaunchTarget& target, const LaunchArguments& arguments) {
  write_files(plan.files);
  write_files({{plan.folder / "launch.yaml", write_launch_file(plan.request, plan.folder)}});
  if (arguments.no_submit) {
    write_files(submission.files);
    for (const auto& command : submission.commands) fmt::print("{}\n", command_text(command));
    return kDone;
  }
  const LaunchRecord record = record_of(plan, target.submit(plan.jobs, submission));
  write_record(record);
  const bool follows = plan.request.target == TargetKind::local ? !arguments.detach : arguments.wait;
  if (arguments.json && !follows) print_json(json_of(plan, submission));
  for (const JobRecord& job : record.jobs) {
    fmt::print(stderr, "Logging to: {}\n", target.log_file(job, std::nullopt).string());
    fmt::print(stderr, "started {} as {}\n", job.name, job.id);
  }
  if (follows) {
    const int status = follow_jobs(target, record.jobs);
    if (!plan.sweep.empty()) compare_sweep(plan);
    return status;
  }
  fmt::print(stderr, "follow it with trireme launch --logs {} --follow, stop it with trireme launch --stop {}\n", plan.name,
             plan.name);
  return kDone;
}

}  // namespace

std::unique_ptr<LaunchTarget> make_target(const LaunchRequest& request) {
  switch (request.target) {
    case TargetKind::local:
      return make_local_target(request.options.values);
    case TargetKind::slurm:
      return make_slurm_target(request.options.values);
    default:
      return make_kubernetes_target(request.options.values);
  }
}

int launch(LaunchArguments arguments) {
  LaunchRequest& request = arguments.request;
  require_for_target(request.options, request.target);
  const std::vector<LaunchChoice> from_environment = apply_environment(request);
  if (request.recipe.empty()) throw UserError("which recipe? trireme recipes lists them");
  const LaunchRequest to_save = request;  // without a name that is only the next free one
  LaunchPlan plan = plan_launch(request, arguments.site);
  if ((!request.options.has("name") || arguments.repeats) && !request.options.values.resume) {
    if (const std::string name = free_name(plan); name != plan.name) {
      request.options.values.name = name;
      request.options.places["name"] = "the next free name";
      plan = plan_launch(request, arguments.site);
    }
  }
  plan.choices.insert(plan.choices.begin(), from_environment.begin(), from_environment.end());
  const std::unique_ptr<LaunchTarget> target = make_target(plan.request);
  require_free_name(plan, *target, request);
  const Submission submission = target->prepare(plan.jobs);
  if (!arguments.dry_run && !arguments.no_submit) target->require_ready(plan.jobs);
  if (!arguments.save.empty()) {
    const fs::path file = fs::absolute(arguments.save);
    write_files({{file, write_launch_file(to_save, file.parent_path())}});
  }
  if (arguments.dry_run) {
    if (arguments.json)
      print_json(json_of(plan, submission));
    else
      print_dry_run(plan, submission);
    return kDone;
  }
  if (!arguments.json) print_plan(plan, submission);
  const LaunchOptions& options = plan.request.options.values;
  const bool waits = plan.request.target == TargetKind::local ? !arguments.detach : arguments.wait;
  if (!options.after.empty() && !waits)
    throw UserError("after: {} runs here when the launch has ended; {}", options.after.front(),
                    plan.request.target == TargetKind::local ? "leave out --detach" : "add --wait");
  run_site_commands(options.before, "before");
  int status = kFailed;
  try {
    status = submit_and_follow(plan, submission, *target, arguments);
  } catch (...) {
    run_site_commands(options.after, "after");
    throw;
  }
  run_site_commands(options.after, "after");
  return status;
}

}  // namespace trireme
