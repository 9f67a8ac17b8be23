#include "launch/slurm/job_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/json.h"
#include "launch/attempt_log.h"
#include "launch/slurm/batch_script.h"
#include "launch/slurm/job_end.h"
#include "launch/slurm/slurm_command.h"
#include "launch/slurm/slurm_text.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr auto kAskInterval = std::chrono::seconds(2);

fs::path memory_path(const JobRecord& job) { return slurm_folder(job.stage, job.folder) / "slurm.json"; }

// What submit() kept; an empty object if there is nothing, or it is of another job.
nlohmann::json memory_of(const JobRecord& job) {
  constexpr int64_t kLargest = 1 << 20;
  std::error_code failed;
  if (!fs::exists(memory_path(job), failed)) return nlohmann::json::object();
  const nlohmann::json json = try_parse_json(read_file(memory_path(job), kLargest));
  const bool is_whole = json.is_object() && json.contains("tasks") && json.contains("after") && json.value("job", "") == job.id;
  return is_whole ? json : nlohmann::json::object();
}

std::vector<JobRecord> jobs_before(const JobRecord& job) {
  std::vector<JobRecord> before;
  const nlohmann::json memory = memory_of(job);
  if (!memory.contains("after")) return before;
  for (const nlohmann::json& one : memory.at("after"))
    before.push_back({.name = one.value("name", ""),
                      .stage = static_cast<JobStage>(one.value("stage", 0)),
                      .id = one.value("id", ""),
                      .folder = one.value("folder", "")});
  return before;
}

JobStatus status_of_end(const SlurmJobEnd& end) {
  const bool was_stopped = end.was_stopped || end.exit_status == kStoppedAfterSaving;
  const JobPhase phase = end.exit_status == kDone ? JobPhase::done : was_stopped ? JobPhase::stopped : JobPhase::failed;
  return {.phase = phase, .detail = end.reason, .exit_status = end.exit_status};
}

// Seconds since a time as squeue prints it, negative for the future; nothing if it is not a time.
std::optional<int64_t> seconds_since(const std::string& text) {
  std::tm time{};
  time.tm_isdst = -1;
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr) return std::nullopt;
  return std::time(nullptr) - std::mktime(&time);
}

std::string attempt_text(const JobRecord& job) {
  const std::vector<Attempt> attempts = read_attempts(slurm_folder(job.stage, job.folder));
  if (attempts.size() < 2) return "";
  std::string before;
  for (const Attempt& attempt : attempts)
    if (!attempt.reason.empty()) before = attempt.reason;
  return fmt::format("attempt {}{}; ", attempts.back().number, before.empty() ? "" : fmt::format(" after \"{}\"", before));
}

// Ends the wait of a requeued job on the way.
JobStatus status_in_queue(const JobRecord& job, const QueuedJob& queued) {
  if (queued.state == "PENDING") {
    constexpr int64_t kSoonSeconds = 10;
    const bool has_run = !read_attempts(slurm_folder(job.stage, job.folder)).empty();
    const bool starts_late = seconds_since(queued.start).value_or(0) < -kSoonSeconds;
    if (has_run && starts_late && queued.reason == "BeginTime") start_requeued_job(job.id);
    const int64_t seconds = std::max<int64_t>(0, seconds_since(queued.submitted).value_or(0));
    return {.phase = JobPhase::waiting,
            .detail = fmt::format("{}{} in the queue: {}", attempt_text(job),
                                  seconds < 600 ? fmt::format("{} s", seconds) : format_slurm_seconds(seconds), queued.reason),
            .exit_status = std::nullopt};
  }
  std::string detail = fmt::format("{}{} of {} on {}", attempt_text(job), queued.used, queued.limit, queued.nodes);
  if (queued.state != "RUNNING") detail += ", " + queued.state;
  return {.phase = JobPhase::running, .detail = detail, .exit_status = std::nullopt};
}

struct ArrayCount {
  int64_t done = 0, failed = 0, running = 0;
  JobStatus first_failure;
};

ArrayCount count_tasks(const JobRecord& job, int64_t tasks) {
  ArrayCount count;
  for (int64_t task = 0; task < tasks; ++task) {
    const auto end = read_job_end(job_end_path(slurm_folder(job.stage, job.folder), task), job.id);
    if (!end) continue;
    if (end->exit_status == kDone) {
      ++count.done;
      continue;
    }
    if (count.failed++ > 0) continue;
    count.first_failure = status_of_end(*end);
    count.first_failure.detail = fmt::format("task {}: {}", task, end->reason);
  }
  return count;
}

JobStatus status_of_array(const JobRecord& job, int64_t tasks, const std::vector<QueuedJob>& queued) {
  ArrayCount count = count_tasks(job, tasks);
  for (const QueuedJob& task : queued) count.running += task.state == "PENDING" ? 0 : 1;
  const std::string so_far =
      fmt::format("{} of {} tasks done{}", count.done, tasks, count.failed > 0 ? fmt::format(", {} failed", count.failed) : "");
  if (count.done == tasks) return {.phase = JobPhase::done, .detail = so_far, .exit_status = kDone};
  if (!queued.empty() && count.failed + count.done < tasks) {
    if (count.running + count.done + count.failed == 0) return status_in_queue(job, queued.front());
    return {.phase = JobPhase::running, .detail = so_far, .exit_status = std::nullopt};
  }
  if (count.failed == 0) return {.phase = JobPhase::unknown, .detail = so_far, .exit_status = std::nullopt};
  count.first_failure.detail += "; " + so_far;
  return count.first_failure;
}

}  // namespace

std::vector<QueuedJob> parse_queue(const std::string& squeue_output) {
  std::vector<QueuedJob> jobs;
  std::istringstream lines(squeue_output);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == '|')
        fields.emplace_back();
      else
        fields.back() += c;
    }
    if (fields.size() < 7) continue;
    jobs.push_back({fields[0], fields[1], fields[2], fields[3], fields[4], fields[5], fields[6]});
  }
  return jobs;
}

JobStatus status_of_state(const std::string& state, const std::string& exit_code) {
  JobStatus status;
  const std::string word = state.substr(0, state.find_first_of(" +"));
  const std::vector<std::string> codes = split_at(exit_code, ':');
  const int code = codes.empty() ? 0 : std::atoi(codes.front().c_str());
  if (word == "COMPLETED") return {.phase = JobPhase::done, .detail = "", .exit_status = kDone};
  if (word == "CANCELLED") return {.phase = JobPhase::stopped, .detail = "cancelled", .exit_status = std::nullopt};
  for (const auto& [name, text] :
       {std::pair{"FAILED", "its script ended without a result; the log may say why"},
        std::pair{"TIMEOUT", "Slurm's time limit ended it"}, std::pair{"NODE_FAIL", "Slurm lost a node of it"},
        std::pair{"OUT_OF_MEMORY", "out of memory"}, std::pair{"PREEMPTED", "preempted"},
        std::pair{"BOOT_FAIL", "a node did not start"}, std::pair{"DEADLINE", "its deadline passed"}})
    if (word == name) return {.phase = JobPhase::failed, .detail = text, .exit_status = code == 0 ? kFailed : code};
  return status;
}

void SlurmJobQueue::remember(const JobRecord& job, int64_t tasks, const std::vector<JobRecord>& after) {
  nlohmann::ordered_json before = nlohmann::ordered_json::array();
  for (const JobRecord& other : after)
    before.push_back(
        {{"name", other.name}, {"stage", static_cast<int>(other.stage)}, {"id", other.id}, {"folder", other.folder.string()}});
  const nlohmann::ordered_json json = {{"job", job.id}, {"tasks", tasks}, {"after", before}};
  atomic_write(memory_path(job), bytes_of(json_text(json) + "\n"));
}

int64_t SlurmJobQueue::tasks_of(const JobRecord& job) const { return memory_of(job).value("tasks", int64_t{0}); }

JobStatus SlurmJobQueue::status(const JobRecord& job) {
  if (const auto end = read_job_end(job_end_path(slurm_folder(job.stage, job.folder), std::nullopt), job.id))
    return status_of_end(*end);
  const auto now = std::chrono::steady_clock::now();
  const auto known = known_.find(job.id);
  if (known != known_.end() && now - known->second.when < kAskInterval) return known->second.status;
  JobStatus status = ask(job);
  known_[job.id] = {now, status};
  return status;
}

JobStatus SlurmJobQueue::ask(const JobRecord& job) {
  const CommandOutput queue = run_slurm({"squeue", "--noheader", "--array", "--jobs=" + job.id, "--format", kQueueFormat});
  const bool is_unknown_job = queue.status != 0 && queue.errors.find("Invalid job id") != std::string::npos;
  if (queue.status != 0 && !is_unknown_job)
    return {.phase = JobPhase::unknown, .detail = "Slurm does not answer: " + complaint_of(queue), .exit_status = std::nullopt};
  const std::vector<QueuedJob> queued = parse_queue(queue.output);
  if (const int64_t tasks = tasks_of(job); tasks > 0) {
    JobStatus status = status_of_array(job, tasks, queued);
    if (status.phase != JobPhase::unknown) return status;
  } else if (!queued.empty()) {
    return status_in_queue(job, queued.front());
  }
  // It has left the queue. A job that never started because of an earlier stage says so.
  for (const JobRecord& before : jobs_before(job)) {
    const JobStatus status_before = status(before);
    if (status_before.phase == JobPhase::failed || status_before.phase == JobPhase::stopped)
      return {.phase = JobPhase::stopped,
              .detail = fmt::format("not started: {} {}{}", before.name, name_of(status_before.phase),
                                    status_before.detail.empty() ? "" : ", " + status_before.detail),
              .exit_status = std::nullopt};
  }
  const CommandOutput accounting =
      run_slurm({"sacct", "--noheader", "--parsable2", "--allocations", "--jobs=" + job.id, "--format", "State,ExitCode"});
  if (accounting.status == 0 && !accounting.output.empty()) {
    const std::string line = accounting.output.substr(0, accounting.output.find('\n'));
    const size_t bar = line.find('|');
    if (bar != std::string::npos) return status_of_state(line.substr(0, bar), line.substr(bar + 1));
  }
  const auto jobs = parse_slurm_objects(run_slurm({"scontrol", "--oneliner", "show", "job", job.id}).output);
  if (!jobs.empty()) return status_of_state(slurm_value(jobs.front(), "JobState"), slurm_value(jobs.front(), "ExitCode"));
  return {.phase = JobPhase::failed,
          .detail = "it left the queue without a result; its log may say why",
          .exit_status = std::nullopt};
}

}  // namespace trireme
