#include "launch/slurm/supervisor.h"

#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <map>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/process.h"
#include "launch/attempt_log.h"
#include "launch/job.h"
#include "launch/recovery.h"
#include "launch/slurm/allocation.h"
#include "launch/slurm/job_end.h"
#include "launch/slurm/node_check.h"
#include "launch/slurm/site.h"
#include "launch/slurm/slurm_command.h"
#include "launch/slurm/slurm_text.h"
#include "launch/slurm/step.h"
#include "train/attempt_recorder.h"

namespace trireme {
namespace {

using Moment = std::chrono::steady_clock::time_point;
constexpr auto kLinger = std::chrono::seconds(10);  // of srun after a rank failed: it waits for nodes that are gone
constexpr int kSameNodeFailures = 2;                // until a node that starts steps but fails them is replaced

constexpr int kTaskAttempts = 3;  // of a task of an array
constexpr auto kTaskPause = std::chrono::seconds(2);

volatile std::sig_atomic_t near_time_limit = 0, was_terminated = 0;

void note_signal(int signal) {
  if (signal == SIGUSR1)
    near_time_limit = 1;
  else
    was_terminated = 1;
}

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
}

std::string slurm_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void say(const std::string& text) {
  std::string line;
  append_local_time(line, system_clock().unix_microseconds());
  line.resize(std::string_view("2026-01-01 00:00:00").size());
  line += fmt::format(" slurm: {}\n", text);
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) return;  // a full disk
}

// Decides, several times a second, what srun is told.
class StepSignals {
 public:
  explicit StepSignals(int64_t save_seconds, Recovery* recovery = nullptr) : save_seconds_(save_seconds), recovery_(recovery) {}

  int operator()(bool has_failed) {
    const Moment now = std::chrono::steady_clock::now();
    if (has_failed && !failed_) {
      failed_ = now;
      if (recovery_ != nullptr) recovery_->notice(now);
    }
    if ((near_time_limit != 0 || was_terminated != 0) && !asked_) {
      asked_ = now;
      return SIGUSR2;  // srun passes it to the ranks, which save and leave
    }
    const bool is_stuck = failed_ && now - *failed_ > kLinger;
    const bool is_late =
        asked_ && near_time_limit != 0 && save_seconds_ > 0 && now - *asked_ > std::chrono::seconds(save_seconds_);
    if (!is_stuck && !is_late) return 0;
    if (!ended_) {
      ended_ = now;
      if (recovery_ != nullptr) recovery_->signal(SIGTERM, now);
      return SIGTERM;  // srun ends its ranks
    }
    return now - *ended_ > kLinger ? SIGKILL : 0;
  }

 private:
  int64_t save_seconds_;
  Recovery* recovery_;
  std::optional<Moment> failed_, asked_, ended_;
};

class SlurmSupervisor {
 public:
  explicit SlurmSupervisor(const SupervisedJob& job)
      : job_(job),
        id_(slurm_variable("SLURM_JOB_ID")),
        end_path_(job_end_path(job.folder, job.task)),
        allocation_(id_, slurm_variable("SLURM_JOB_NODELIST")),
        log_(job.folder, job.run_folder, job.max_restarts) {
    if (id_.empty()) throw UserError("launch slurm-supervise runs inside a Slurm job; use trireme launch slurm");
  }

  int run() {
    watch_signals();
    std::error_code ignored;
    std::filesystem::remove(end_path_, ignored);
    if (job_.run_folder.empty()) return run_once();
    const std::string restarts = slurm_variable("SLURM_RESTART_COUNT");
    say(fmt::format("job {} on {}{}", id_, slurm_variable("SLURM_JOB_NODELIST"),
                    restarts.empty() ? "" : fmt::format(", restart {} of Slurm", restarts)));
    if (job_.check_words > 0)
      if (const std::optional<int> end = leave_out_bad_nodes()) return *end;
    for (;;) {
      const std::vector<std::string> nodes = allocation_.choose(job_.nodes);
      if (narrow<int64_t>(nodes.size()) < job_.nodes)
        return give_back(kFailed, fmt::format("{} of {} nodes are left", nodes.size(), job_.nodes));
      keep_deputy();
      const StepEnd end = attempt(nodes);
      if (was_terminated != 0) return end_of_terminated(end);
      if (near_time_limit != 0) return end_at_time_limit(end);
      const AttemptVerdict verdict = log_.end(end.status, reason_of(end));
      if (verdict.action == NextAction::finish) return finish(verdict.exit_status, verdict.line);
      say(fmt::format("attempt {} failed: {}", log_.attempts().back().number, verdict.line));
      replace_nodes(end, nodes);
    }
  }

 private:
  std::string own_id() const {
    const std::string array = slurm_variable("SLURM_ARRAY_JOB_ID");
    return array.empty() ? id_ : array;
  }

  std::string step_name() const { return job_.task ? fmt::format("task {}", *job_.task) : "job " + id_; }

  static std::string reason_of(const StepEnd& end) {
    const std::string reason = end.messages.reason();
    return end.status == kDone ? "" : !reason.empty() ? reason : fmt::format("srun ended with status {}", end.status);
  }

  int finish(int status, const std::string& reason, bool was_stopped = false) {
    write_job_end(end_path_, {.job = own_id(), .exit_status = status, .was_stopped = was_stopped, .reason = reason});
    if (job_.task) note_task(status == kDone ? "done" : fmt::format("ended with exit status {}: {}", status, reason));
    say(status == kDone ? "done" : fmt::format("ended with exit status {}: {}", status, reason));
    stop_deputy();
    return status;
  }

  // The merged log of an array has a line for the start and the end of each task.
  void note_task(const std::string& text) const {
    try {
      File::open_append(job_.folder / "log.txt").write(fmt::format("task {} on {}: {}\n", *job_.task, host_name(), text));
    } catch (const Failure& failure) {
      say(failure.what());
    }
  }

  int run_once() {
    if (job_.task) note_task("started");
    say(fmt::format("{} on {}", step_name(), slurm_variable("SLURM_JOB_NODELIST")));
    StepEnd end = run_once_step();
    // Downloads fail.
    for (int tried = 1; job_.task && end.status == kFailed && tried < kTaskAttempts && was_terminated == 0; ++tried) {
      say(fmt::format("{}; trying again", reason_of(end)));
      std::this_thread::sleep_for(kTaskPause);
      end = run_once_step();
    }
    if (was_terminated != 0) return end_of_terminated(end);
    return finish(end.status, reason_of(end));
  }

  StepEnd run_once_step() const {
    return run_step(job_.step, job_.task ? std::filesystem::path() : job_.folder, StepSignals(job_.save_seconds));
  }

  // The status of the job if it cannot start.
  std::optional<int> leave_out_bad_nodes() {
    NodeVerdict verdict;
    StepEnd end = check_nodes(verdict);
    if (!verdict.failure.empty() && !allocation_.find_lost().empty()) end = check_nodes(verdict);
    if (was_terminated != 0) return end_of_terminated(end);
    if (!verdict.failure.empty()) return finish(kFailed, "the checks of the nodes failed: " + verdict.failure);
    std::vector<std::string> left_out;
    for (const NodeVerdict::Bad& bad : verdict.bad) {
      if (!allocation_.drop(bad.node)) continue;
      left_out.push_back(bad.node);
      say(fmt::format("{} is left out: {}", bad.node, bad.reason));
    }
    const int64_t left = narrow<int64_t>(allocation_.choose(job_.nodes).size());
    if (left >= job_.nodes) return std::nullopt;
    return finish(kFailed,
                  fmt::format("{} of {} nodes are good: {} failed the checks; launch with --exclude {}, or with --spares to have "
                              "others in their place",
                              left, job_.nodes, fmt::join(left_out, ","), fmt::join(left_out, ",")));
  }

  // A check that could not be made is a failure, too.
  StepEnd check_nodes(NodeVerdict& verdict) {
    const std::vector<std::string> nodes = allocation_.choose(std::numeric_limits<int64_t>::max());
    const auto srun_end = job_.step.begin() + static_cast<std::ptrdiff_t>(std::min(job_.check_words, job_.step.size() - 1));
    const NodeCheck check{.nodes = nodes,
                          .srun = {job_.step.begin(), srun_end},
                          .program = *srun_end,
                          .run_folder = job_.folder,
                          .folder = job_.folder / name_of(JobStage::validation)};
    std::error_code failed;
    std::filesystem::remove(check_result_path(check.folder), failed);
    create_folders(check.folder);
    say(fmt::format("checking {} before the run", fmt::join(nodes, ",")));
    StepEnd end = run_step(check_command(check), check.folder, StepSignals(job_.save_seconds));
    verdict = {};
    if (std::filesystem::exists(check_result_path(check.folder), failed))
      verdict = read_node_check(check);
    else
      verdict.failure = reason_of(end);
    return end;
  }

  StepEnd attempt(const std::vector<std::string>& nodes) {
    std::vector<std::string> words = job_.step;
    words.insert(words.begin() + 1, fmt::format("--nodelist={}", fmt::join(nodes, ",")));
    const bool continues = job_.resume || !log_.attempts().empty();
    if (continues) words.insert(words.end(), {"--resume", "++exp_manager.resume_ignore_no_checkpoint=true"});
    const int64_t number = log_.begin(), step = log_.attempts().back().first_step;
    say(fmt::format("attempt {} on {}{}", number, fmt::join(nodes, ","),
                    step >= 0 ? fmt::format(", from the checkpoint of step {}", step) : ""));
    recovery_.restart(taken_.empty() ? "on the same nodes" : "on spare " + taken_, Recovery::now());
    StepEnd end = run_step(words, job_.folder, StepSignals(job_.save_seconds, &recovery_), [&](const LabelledLine& line) {
      if (line.rank != 0 || !line.text.starts_with(kFirstStepOfAttempt)) return;
      if (const std::string text = recovery_.first_step(Recovery::now()); !text.empty()) say(text);
    });
    if (end.status != kDone) recovery_.notice(Recovery::now());
    recovery_.leave(Recovery::now());
    return end;
  }

  void replace_nodes(const StepEnd& end, const std::vector<std::string>& used) {
    std::vector<std::string> lost;
    for (const std::string& node : end.messages.lost_nodes())
      if (allocation_.drop(node)) lost.push_back(node + " (srun lost it)");
    const std::vector<std::string> found = allocation_.find_lost();
    lost.insert(lost.end(), found.begin(), found.end());
    const auto& first = end.messages.first_failure();
    if (lost.empty() && first && ++failures_[first->node] >= kSameNodeFailures && !allocation_.spares(used).empty() &&
        allocation_.drop(first->node))
      lost.push_back(fmt::format("{} (failed {} times)", first->node, failures_[first->node]));
    taken_.clear();
    if (lost.empty()) return;
    std::vector<std::string> taken;
    for (const std::string& node : allocation_.choose(job_.nodes))
      if (std::ranges::find(used, node) == used.end()) taken.push_back(node);
    taken_ = fmt::format("{}", fmt::join(taken, ", "));
    say(fmt::format("lost {}{}", fmt::join(lost, ", "), taken_.empty() ? "" : fmt::format("; spare {} takes over", taken_)));
  }

  int end_at_time_limit(const StepEnd& end) {
    if (end.status == kDone || end.status == kUserError || end.status == kDoNotRetry) {
      const AttemptVerdict verdict = log_.end(end.status, reason_of(end));
      return finish(verdict.exit_status, verdict.line);
    }
    const bool has_progress = newest_step(job_.run_folder) > log_.attempts().back().first_step;
    const AttemptVerdict verdict = has_progress ? log_.end(kStoppedAfterSaving, "saved before the time limit")
                                                : log_.end(kFailed, "the time limit came before a new checkpoint");
    if (verdict.exit_status == kDoNotRetry) return finish(verdict.exit_status, verdict.line);
    return give_back(has_progress ? kStoppedAfterSaving : kFailed, verdict.line);
  }

  // Slurm ends the job: a user's scancel, the time limit, or something after which it starts the job again.
  int end_of_terminated(const StepEnd& end) {
    // Slurm tells the step why, or only the log of the batch script if the step has ended before; then srun has named the node.
    const std::string why = end.messages.cancelled().value_or(end.messages.lost_nodes().empty() ? "" : "NODE FAILURE");
    const int status = end.status == kDone || end.status == kStoppedAfterSaving ? end.status : 128 + SIGTERM;
    const std::string saved = status == kStoppedAfterSaving ? "; the ranks saved" : "";
    const std::string reason = (why.empty() ? "cancelled" : fmt::format("ended by Slurm: {}", why)) + saved;
    if (!log_.attempts().empty() && !job_.run_folder.empty()) log_.end(status, reason);
    if (why.empty() || why == "TIME LIMIT") return finish(status, reason, why.empty());
    say(reason);
    return status;
  }

  // Back to the queue, for other nodes or more time; a job that may not ends here.
  int give_back(int status, const std::string& reason) {
    if (!job_.may_requeue) return finish(status, reason + "; trireme launch with --resume continues it");
    stop_deputy();
    say(reason + "; back to the queue");
    const std::string refusal = requeue_job(id_);
    if (!refusal.empty()) return finish(status, fmt::format("{}; Slurm does not start the job again: {}", reason, refusal));
    return status;
  }

  void keep_deputy() {
    if (!job_.has_spares) return;
    if (deputy_ != 0 && ::waitpid(deputy_, nullptr, WNOHANG) != deputy_) return;
    const std::string host = slurm_variable("SLURMD_NODENAME");
    const std::vector<std::string> others = allocation_.spares({host});
    if (others.empty() || host.empty()) return;
    std::vector<std::string> words = {"srun",
                                      "--overlap",
                                      "--mpi=none",
                                      "--nodes=1",
                                      "--ntasks=1",
                                      "--ntasks-per-node=1",
                                      "--nodelist=" + others.back(),
                                      std::filesystem::read_symlink("/proc/self/exe").string(),
                                      "launch",
                                      "slurm-deputy",
                                      "--job",
                                      id_,
                                      "--host",
                                      host};
    if (job_.may_requeue) words.emplace_back("--requeue");
    deputy_ = start_in_background(words);
  }

  void stop_deputy() {
    if (deputy_ == 0) return;
    ::kill(deputy_, SIGTERM);
    for (int i = 0; i < 20 && ::waitpid(deputy_, nullptr, WNOHANG) == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    deputy_ = 0;
  }

  const SupervisedJob& job_;
  std::string id_;
  std::filesystem::path end_path_;
  Allocation allocation_;
  AttemptLog log_;
  Recovery recovery_;
  std::string taken_;                    // spare nodes of the next attempt
  std::map<std::string, int> failures_;  // of nodes whose rank failed first
  pid_t deputy_ = 0;
};

}  // namespace

int supervise_slurm_job(const SupervisedJob& job) { return SlurmSupervisor(job).run(); }

int watch_supervisor_node(const SlurmDeputy& deputy) {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::seconds(deputy.seconds));
    const SlurmSite site = parse_site({.nodes = run_slurm({"scontrol", "--oneliner", "show", "node", deputy.host}).output});
    if (site.nodes.empty()) continue;  // the scheduler does not answer
    const std::vector<std::string> states = split_at(site.nodes.front().state, '+');
    if (states.empty() || !states.front().starts_with("DOWN")) continue;
    if (deputy.may_requeue && requeue_job(deputy.job).empty()) return kDone;
    run_slurm({"scancel", deputy.job});
    return kDone;
  }
}

}  // namespace trireme
