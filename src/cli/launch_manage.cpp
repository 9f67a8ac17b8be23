// trireme launch --list, --status, --logs, --fetch and --stop, the same on all targets.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/launch_commands.h"
#include "fetch/glob.h"
#include "launch/launch_record.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<LaunchTarget> target_of(const LaunchRecord& record) {
  LaunchRequest request;
  request.target = record.target;
  if (const fs::path file = record.folder / "launch.yaml"; fs::exists(file)) request = read_launch_file(file.string());
  return make_target(request);
}

fs::path results_folder(const std::string& named) {
  if (!named.empty()) return named;
  if (const std::string site = find_site_file(""); !site.empty())
    if (const GivenOptions options = read_site_file(site); options.has("results")) return options.values.results;
  return "runs";
}

struct JobView {
  JobRecord job;
  JobStatus status;
  int64_t step = -1;  // newest checkpoint
};

std::vector<JobView> view_of(const LaunchRecord& record) {
  const std::unique_ptr<LaunchTarget> target = target_of(record);
  std::vector<JobView> views;
  for (const JobRecord& job : record.jobs)
    views.push_back({job, target->status(job), job.run_folder.empty() ? -1 : newest_step(job.run_folder)});
  return views;
}

nlohmann::ordered_json json_of(const LaunchRecord& record) {
  nlohmann::ordered_json jobs = nlohmann::ordered_json::array();
  for (const JobView& view : view_of(record))
    jobs.push_back({{"name", view.job.name},
                    {"stage", name_of(view.job.stage)},
                    {"id", view.job.id},
                    {"phase", name_of(view.status.phase)},
                    {"detail", view.status.detail},
                    {"exit_status", view.status.exit_status ? nlohmann::ordered_json(*view.status.exit_status) : nullptr},
                    {"checkpoint_step", view.step < 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(view.step)},
                    {"folder", view.job.folder.string()}});
  return {{"name", record.name},
          {"target", name_of(record.target)},
          {"launched", record.launched},
          {"host", record.host},
          {"user", record.user},
          {"folder", record.folder.string()},
          {"jobs", jobs}};
}

void print_jobs(const LaunchRecord& record) {
  for (const JobView& view : view_of(record)) {
    std::string line =
        fmt::format("{:<24} {:<10} {:<16} {}", view.job.name, name_of(record.target), view.job.id, name_of(view.status.phase));
    if (view.status.exit_status) line += fmt::format(" (exit status {})", *view.status.exit_status);
    if (view.step >= 0) line += fmt::format(", checkpoint of step {}", view.step);
    if (!view.status.detail.empty()) line += ": " + view.status.detail;
    fmt::print("{}\n", line);
  }
}

int list_launches(const ManageArguments& arguments) {
  const std::vector<LaunchRecord> records = list_records(results_folder(arguments.results));
  if (arguments.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const LaunchRecord& record : records) json.push_back(json_of(record));
    print_json(json);
    return kDone;
  }
  if (records.empty()) fmt::print("no launches in {}\n", results_folder(arguments.results).string());
  for (const LaunchRecord& record : records) print_jobs(record);
  return kDone;
}

int show_status(const LaunchRecord& record, bool as_json) {
  if (as_json) {
    print_json(json_of(record));
    return kDone;
  }
  fmt::print("{}: launched {} by {} on {}, folder {}\n", record.name, record.launched, record.user, record.host,
             record.folder.string());
  print_jobs(record);
  return kDone;
}

// The job whose log is meant: the training, or the only one.
const JobRecord& main_job(const LaunchRecord& record) {
  if (record.jobs.empty()) throw UserError("{} has no jobs", record.name);
  for (const JobRecord& job : record.jobs)
    if (job.stage == JobStage::training) return job;
  return record.jobs.front();
}

int show_logs(const LaunchRecord& record, const ManageArguments& arguments) {
  target_of(record)->show_log(main_job(record), {.rank = arguments.rank, .follow = arguments.follow});
  return kDone;
}

int fetch_files(const LaunchRecord& record, const std::string& glob) {
  const fs::path to = fs::current_path() / record.name;
  if (fs::weakly_canonical(to) == fs::weakly_canonical(record.folder))
    throw UserError("{} is here already", record.folder.string());
  const int64_t copied = target_of(record)->fetch_files(record.folder, glob.empty() ? "**" : glob, to);
  if (copied == 0) throw UserError("no file of {} matches {}", record.folder.string(), glob);
  fmt::print("{} file{} to {}\n", copied, copied == 1 ? "" : "s", to.string());
  return kDone;
}

int stop_launch(const LaunchRecord& record) {
  const std::unique_ptr<LaunchTarget> target = target_of(record);
  for (auto job = record.jobs.rbegin(); job != record.jobs.rend(); ++job) {
    const bool was_alive = target->status(*job).phase == JobPhase::running || target->status(*job).phase == JobPhase::waiting;
    target->stop(*job);
    fmt::print("{} {}\n", was_alive ? "stopped" : "had ended:", job->name);
  }
  return kDone;
}

}  // namespace

int manage_launches(const ManageArguments& arguments) {
  const int given = static_cast<int>(arguments.list) + static_cast<int>(!arguments.status.empty()) +
                    static_cast<int>(!arguments.logs.empty()) + static_cast<int>(!arguments.fetch.empty()) +
                    static_cast<int>(!arguments.stop.empty());
  if (given != 1) throw UserError("give one of --list, --status, --logs, --fetch and --stop");
  if (arguments.list) return list_launches(arguments);
  const fs::path results = results_folder(arguments.results);
  if (!arguments.status.empty()) return show_status(find_record(results, arguments.status), arguments.json);
  if (!arguments.logs.empty()) return show_logs(find_record(results, arguments.logs), arguments);
  if (!arguments.fetch.empty()) return fetch_files(find_record(results, arguments.fetch), arguments.glob);
  return stop_launch(find_record(results, arguments.stop));
}

int follow_jobs(LaunchTarget& target, const std::vector<JobRecord>& jobs) {
  int status = kDone;
  for (const JobRecord& job : jobs) {
    target.show_log(job, {.rank = std::nullopt, .follow = true});
    const JobStatus end = target.status(job);
    const int own = end.exit_status.value_or(end.phase == JobPhase::done ? kDone : kFailed);
    if (own != kDone) fmt::print(stderr, "{} {}{}{}\n", job.name, name_of(end.phase), end.detail.empty() ? "" : ": ", end.detail);
    if (status == kDone) status = own;
  }
  return status;
}

}  // namespace trireme
