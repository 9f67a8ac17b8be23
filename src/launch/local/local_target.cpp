// Jobs on this machine: a supervisor process per launch, which `trireme launch local` starts, follows and can be told to stop by.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/process.h"
#include "launch/launch_target.h"
#include "launch/local/job_state.h"
#include "launch/local/local_plan.h"
#include "launch/local/process_id.h"
#include "launch/local/supervisor_process.h"
#include "launch/plan_launch.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr auto kFollowInterval = std::chrono::milliseconds(100);
constexpr auto kSaveLimit = std::chrono::seconds(120);  // for ranks that save because of --stop
constexpr auto kKillLimit = std::chrono::seconds(15);

bool is_over(JobPhase phase) { return phase == JobPhase::done || phase == JobPhase::failed || phase == JobPhase::stopped; }

bool ends_within(const ProcessId& id, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (is_running(id)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kFollowInterval);
  }
  return true;
}

class LocalTarget : public LaunchTarget {
 public:
  explicit LocalTarget(LaunchOptions options) : options_(std::move(options)) {}

  Submission prepare(const std::vector<Job>& jobs) override {
    LocalPlan plan = plan_local(jobs, options_);
    const fs::path file = launch_file_of(jobs);
    return {.files = {{file, write_local_launch(plan.launch)}},
            .commands = {supervisor_command(file)},
            .choices = std::move(plan.choices)};
  }

  std::vector<JobRecord> submit(const std::vector<Job>& jobs, const Submission& submission) override {
    for (const SubmissionFile& file : submission.files) {
      create_folders(file.path.parent_path());
      atomic_write(file.path, bytes_of(file.text));
    }
    std::vector<JobRecord> records;
    for (const Job& job : jobs) {
      const JobRecord record{.name = job.name, .stage = job.stage, .id = {}, .folder = job.folder, .run_folder = job.run_folder};
      // A launch that the user continues starts its count of attempts again.
      std::error_code failed;
      if (!is_in_pod()) fs::remove(state_folder(record) / kAttemptsFile, failed);
      const fs::path log = log_file(record, std::nullopt);
      shown_[job.name] = fs::is_regular_file(log, failed) ? static_cast<int64_t>(fs::file_size(log)) : 0;
      records.push_back(record);
    }
    supervisor_.emplace(submission.commands.front());
    for (JobRecord& record : records) record.id = text_of(supervisor_->id());
    return records;
  }

  JobStatus status(const JobRecord& job) override {
    const auto state = read_job_state(state_folder(job));
    const auto supervisor = parse_process(job.id);
    const bool is_here = !state || state->host == host_name();
    if ((state && is_over(state->phase)) || !is_here || (supervisor && is_running(*supervisor))) return status_of(state, is_here);
    // It may have written the end since.
    const auto last = read_job_state(state_folder(job));
    if (last && is_over(last->phase)) return status_of(last, is_here);
    return {JobPhase::failed, "its supervisor was killed" + (last && !last->detail.empty() ? "; " + last->detail : ""), kFailed};
  }

  void stop(const JobRecord& job) override {
    const auto supervisor = parse_process(job.id);
    const auto state = read_job_state(state_folder(job));
    if (state && !is_over(state->phase) && state->host != host_name())
      throw UserError("{} runs on {}; stop it there", job.name, state->host);
    if (!supervisor || !is_running(*supervisor)) return;
    send_signal(*supervisor, SIGTERM);
    send_signal(*supervisor, SIGCONT);
    if (ends_within(*supervisor, kSaveLimit)) return;
    send_signal(*supervisor, SIGTERM);  // the second one kills the ranks
    if (ends_within(*supervisor, kKillLimit)) return;
    send_signal(*supervisor, SIGKILL);
    if (!ends_within(*supervisor, kKillLimit)) throw Failure("process {} of {} does not end", supervisor->process, job.name);
  }

  void show_log(const JobRecord& job, const LogRequest& request) override {
    if (!supervisor_ || !request.follow) return LaunchTarget::show_log(job, request);
    supervisor_->follow();
    const fs::path path = log_file(job, request.rank);
    int64_t offset = shown_[job.name];
    for (bool ended = false;;) {
      offset = print_log_from(path, offset);
      supervisor_->pass_signals();
      supervisor_->print_notices();
      if (ended) return;
      ended = is_over(status(job).phase);
      if (!ended) std::this_thread::sleep_for(kFollowInterval);
    }
  }

  fs::path log_file(const JobRecord& job, std::optional<int64_t> rank) override {
    return state_folder(job) / (rank ? fmt::format("rank-{:05}.log", *rank) : "log.txt");
  }

 private:
  static fs::path state_folder(const JobRecord& job) { return local_folder(job.folder, job.stage); }

  static JobStatus status_of(const std::optional<JobState>& state, bool is_here) {
    if (!state) return {JobPhase::waiting, "its supervisor starts", std::nullopt};
    std::string detail = state->detail;
    if (!is_here) detail = fmt::format("{}{}on {}", detail, detail.empty() ? "" : ", ", state->host);
    return {state->phase, detail, state->exit_status};
  }

  // A file that the disk had no room for has nothing to show.
  static int64_t print_log_from(const fs::path& path, int64_t offset) {
    std::error_code failed;
    constexpr int64_t kMostAtOnce = 1 << 20;
    if (!fs::is_regular_file(path, failed)) return offset;
    const File file = File::open(path);
    std::vector<std::byte> bytes;
    for (int64_t left = file.size() - offset; left > 0; left = file.size() - offset) {
      bytes.resize(static_cast<size_t>(std::min(left, kMostAtOnce)));
      file.read_at(offset, bytes);
      std::fwrite(bytes.data(), 1, bytes.size(), stdout);
      offset += static_cast<int64_t>(bytes.size());
    }
    std::fflush(stdout);
    return offset;
  }

  LaunchOptions options_;
  std::optional<SupervisorProcess> supervisor_;  // of the launch that this process has submitted
  std::map<std::string, int64_t> shown_;         // by job: what its log had before
};

}  // namespace

std::unique_ptr<LaunchTarget> make_local_target(const LaunchOptions& options) { return std::make_unique<LocalTarget>(options); }

}  // namespace trireme
